"""One chaos run: runs and faults side by side, then the wait for every end, then the audit."""

import asyncio
import logging
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.arena import Arena, arena
from chaos.audit import Evidence, audit
from chaos.evidence import evidence, refunds_made
from chaos.nemesis import Nemesis
from chaos.plan import Fault, plan
from chaos.report import Report, report, show
from chaos.traffic import Traffic
from onward.console import Output, Progress
from onward.errors import UsageError
from onward.figures import count
from onward.tools.orphans import guard

_ENDS_S = 180.0
"""How long the last runs may take to end after the last fault."""
_LOOK_S = 1.0


@dataclass(frozen=True)
class Options:
    """What was asked for; `chaos/run.py` says what each means."""

    runs: int = 1
    at_once: int = 12
    minutes: float = 1.0
    seed: int = 1
    workers: int = 3
    forgetful: bool = False
    out: Path | None = None

    @property
    def plan(self) -> list[Fault]:
        """The faults of this run."""
        return plan(self.seed, seconds=self.minutes * 60, workers=self.workers)


def show_plan(options: Options, output: Output) -> None:
    """Print the faults that `run` would strike, a line each."""
    if output.as_json:
        output.json({"faults": [asdict(fault) for fault in options.plan]})
        return
    for fault in options.plan:
        output.result(f"{fault.at_s:8.2f} s  {fault}")


async def run(options: Options, output: Output) -> int:
    """Let chaos loose; returns 0 where the audit holds, else 1."""
    folder = _folder(options.out)
    guard()  # whatever happens to us, our processes end
    # That a client was killed in the middle of an answer is an error to the server that gives it.
    logging.basicConfig(filename=folder / "chaos.log")
    output.note("starting servers and workers")
    async with arena(folder, workers=options.workers, forgetful=options.forgetful) as here:
        found = await _chaos(here, options, folder, output)
    if output.as_json:
        output.json(asdict(found))
    else:
        show(found, output)
    _leave(options, folder, found, output)
    return 0 if found.ok else 1


async def _chaos(here: Arena, options: Options, folder: Path, output: Output) -> Report:
    began = time.monotonic()
    traffic = Traffic(here.temporal, here.api, options.seed)
    nemesis = Nemesis(here.targets, folder / "faults.jsonl")
    with output.progress() as progress:
        async with _shown(progress, here, traffic, nemesis):
            lanes = traffic.open(options.at_once, options.runs)
            await asyncio.gather(
                nemesis.strike(options.plan), _closed_after(traffic, options.minutes * 60)
            )
            await _ended(traffic, lanes)
    seconds = time.monotonic() - began
    seen = await _evidence(here, traffic, nemesis)
    return report(
        seen,
        audit(seen),
        here.targets.crew.surprises,
        seed=options.seed,
        minutes=options.minutes,
        seconds=seconds,
        workers=options.workers,
    )


async def _closed_after(traffic: Traffic, seconds: float) -> None:
    await asyncio.sleep(seconds)
    traffic.close()


async def _ended(traffic: Traffic, lanes: list[asyncio.Task[None]]) -> None:
    """Wait for the last runs: while they go on ending, and no longer than the deadline after."""
    waiting, ended = set(lanes), -1
    while waiting and traffic.ended != ended:
        ended = traffic.ended
        _, waiting = await asyncio.wait(waiting, timeout=_ENDS_S)
    for lane in waiting:
        lane.cancel()
    for failed in await asyncio.gather(*lanes, return_exceptions=True):
        if isinstance(failed, Exception):
            raise failed
    await traffic.explain_unended()


async def _evidence(here: Arena, traffic: Traffic, nemesis: Nemesis) -> Evidence:
    refunds = refunds_made(here.payments, here.transactions_db)
    return await evidence(here.temporal, traffic.runs, refunds, nemesis.struck)


@asynccontextmanager
async def _shown(
    progress: Progress, here: Arena, traffic: Traffic, nemesis: Nemesis
) -> AsyncGenerator[None]:
    async def show_now() -> None:
        while True:
            made = refunds_made(here.payments, here.transactions_db)
            progress.now(_line(traffic, sum(map(len, made.values())), nemesis), ())
            await asyncio.sleep(_LOOK_S)

    showing = asyncio.create_task(show_now())
    try:
        yield
    finally:
        showing.cancel()


def _line(traffic: Traffic, effects: int, nemesis: Nemesis) -> str:
    struck = nemesis.struck
    last = f", the last one: {struck[-1].fault}" if struck else ""
    runs = f"{count(len(traffic.runs), 'run')} started, {traffic.ended} ended"
    return f"{runs} · {count(effects, 'effect')} · {count(len(struck), 'fault')}{last}"


def _folder(out: Path | None) -> Path:
    """Make the folder for logs and data. Raises `UsageError` where it holds something."""
    if out is None:
        return Path(tempfile.mkdtemp(prefix="onward-chaos-"))
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise UsageError(f"found files in {str(out)!r}, expected an empty folder. Name another")
    return out.absolute()


def _leave(options: Options, folder: Path, found: Report, output: Output) -> None:
    """Say how to repeat a run that failed, and keep its folder; remove a temporary one if not."""
    if not found.ok:
        again = f"--seed {options.seed} --minutes {options.minutes:g} --workers {options.workers}"
        output.say(f"seed {options.seed} failed; the same faults again: chaos/run.py {again}")
        output.say(f"logs, histories and what struck when (faults.jsonl): {folder}")
    elif options.out is None:
        shutil.rmtree(folder, ignore_errors=True)
