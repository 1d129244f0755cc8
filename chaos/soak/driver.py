"""One soak: a flow of runs, kills and samples side by side, then rest, then the comparison."""

import asyncio
import logging
import random
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.audit import Evidence
from chaos.evidence import refunds_made
from chaos.nemesis import Nemesis
from chaos.plan import Fault
from chaos.soak import report
from chaos.soak.flow import Flow
from chaos.soak.report import Report, show
from chaos.soak.samples import Sample, Sampler
from chaos.soak.stage import Stage, stage
from chaos.soak.verdict import Compared, compared, problems
from onward.console import Output
from onward.errors import UsageError
from onward.figures import count
from onward.tools.orphans import guard

_SAMPLE_EVERY_S = 10.0
_COMPARED_MINUTES = 25.0
"""A shorter flow is not compared with itself: until then keys only come, and none expires."""
_TELL_EVERY_S = 30.0


@dataclass(frozen=True)
class Options:
    """What was asked for; `chaos/soak/__main__.py` says what each means."""

    minutes: float = 60.0
    kill_every_s: float = 60.0
    runs_per_minute: float = 30.0
    rest_minutes: float = 12.0
    seed: int = 1
    out: Path | None = None

    @property
    def plan(self) -> list[Fault]:
        """When the worker is killed: in the first half of each interval, the second is quiet."""
        made = random.Random(f"soak {self.seed}")  # noqa: S311  (to be repeated, not secret)
        starts = range(int(self.minutes * 60 / self.kill_every_s))
        moments = (self.kill_every_s * (start + made.uniform(0, 0.5)) for start in starts)
        return [Fault(at_s, "kill", "worker 1") for at_s in moments]


async def run(options: Options, output: Output) -> int:
    """Soak; returns 0 where nothing is left behind, else 1."""
    folder = _folder(options.out)
    guard()  # whatever happens to us, our processes end
    logging.basicConfig(filename=folder / "soak.log")
    found = await soaked(options, folder, output)
    if output.as_json:
        output.json(asdict(found))
    else:
        show(found, output)
    if not found.ok:
        output.say(f"logs and data: {folder}")
    elif options.out is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if found.ok else 1


async def soaked(options: Options, folder: Path, output: Output) -> Report:
    """Soak, with logs and data in `folder`; returns what was found."""
    output.note("starting servers and workers")
    async with stage(folder) as here:
        return await _soak(here, options, output)


async def _soak(here: Stage, options: Options, output: Output) -> Report:
    flow, sampler = Flow(here), Sampler(here)
    nemesis = Nemesis(here.targets, here.folder / "faults.jsonl")
    async with _beside(flow, sampler, output):
        await asyncio.gather(
            flow.go_on(minutes=options.minutes, per_minute=options.runs_per_minute),
            nemesis.strike(options.plan),
        )
        rest = await _rested(sampler, options.rest_minutes * 60)
    refunds = refunds_made(here.payments, here.transactions_db)
    seen = Evidence(flow.runs, refunds, flow.spans, nemesis.struck)
    changes = _changes(sampler, flow, options.minutes, rest)
    wrong = [*problems(changes, sampler.samples, rest, seen), *here.targets.crew.surprises]
    return Report(
        minutes=options.minutes,
        runs=len(flow.runs),
        runs_by_kind=report.by_kind([each.kind for each in flow.ended]),
        kills=len(nemesis.struck),
        effects=sum(map(len, refunds.values())),
        doubts=sum(bool(each.result and each.result.in_doubt) for each in flow.runs),
        ok=not wrong,
        problems=wrong,
        compared=report.told(changes),
        at_rest=report.at_rest(rest),
        curve=report.curve(sampler.samples),
    )


def _changes(sampler: Sampler, flow: Flow, minutes: float, rest: Sample) -> list[Compared]:
    if minutes < _COMPARED_MINUTES:
        return []
    return compared(sampler.samples, flow.ended, minutes * 60, rest)


async def _rested(sampler: Sampler, at_most_s: float) -> Sample:
    """Wait until Temporal has forgotten all runs, and Redis too; return what is there then."""
    ends = time.monotonic() + at_most_s
    while True:
        seen = await sampler.take()
        lasting = [seen.keys.expiring.get(kind, 0) for kind in ("run", "result", "live reply")]
        if not any([*lasting, seen.open_runs, seen.known_runs]) or time.monotonic() > ends:
            return seen
        await asyncio.sleep(_SAMPLE_EVERY_S)


@asynccontextmanager
async def _beside(flow: Flow, sampler: Sampler, output: Output) -> AsyncGenerator[None]:
    """Take samples beside the block, and tell how far things are."""
    beside = [
        asyncio.create_task(sampler.go_on(_SAMPLE_EVERY_S)),
        asyncio.create_task(_tell(flow, sampler, output)),
    ]
    try:
        yield
    finally:
        for task in beside:
            task.cancel()
        for failed in await asyncio.gather(*beside, return_exceptions=True):
            if isinstance(failed, Exception):
                raise failed


async def _tell(flow: Flow, sampler: Sampler, output: Output) -> None:
    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        last = sampler.samples[-1]
        keys = sum(last.keys.expiring.values()), sum(last.keys.staying.values())
        steady = last.processes["steady worker"]
        output.say(
            f"{last.at_s:6.0f} s  {count(len(flow.runs), 'run')}, {flow.open} open; steady worker "
            f"{steady.rss_mb} MB, {steady.files} files, {steady.threads} threads, "
            f"{steady.cpu_s} s CPU; keys {keys[0]}+{keys[1]}; Temporal knows {last.known_runs}"
        )


def _folder(out: Path | None) -> Path:
    """Make the folder for logs and data. Raises `UsageError` where it holds something."""
    if out is None:
        return Path(tempfile.mkdtemp(prefix="onward-soak-"))
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise UsageError(f"found files in {str(out)!r}, expected an empty folder. Name another")
    return out.absolute()
