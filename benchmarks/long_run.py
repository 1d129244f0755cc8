"""One long run: what it costs in history, memory and time per step, from the first to the last.

    python benchmarks/long_run.py [--steps 1000] [--result-bytes 16384] [--json]

A real Temporal server, a real Redis, an API that answers at once. Onward and the bare client have
the same conversation, and take turns every hundredth of it, so that whatever else the machine does
slows both.
"""

import asyncio
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.bed import Bed, as_json, bed, peak_mb, say
from benchmarks.contenders import BARE, ONWARD, Ran, Team
from benchmarks.work import Work, number
from onward.errors import OnwardError

_PARTS = 100
"""Turns of each of the two."""
_TELL_S = 5.0


@dataclass(frozen=True)
class Tenths:
    """How long the bare client's steps took."""

    ms_per_step_first_tenth: float | None
    ms_per_step_last_tenth: float | None


@dataclass(frozen=True)
class LongRun:
    """The fields are the keys of `--json`."""

    steps: int
    """Replies of Claude that were sent."""
    finished: bool
    died: str
    """Why it did not finish."""
    requests: int
    """To Claude; more than `steps` if a step was asked for twice."""
    content_bytes: int
    """Of the last request to Claude, which holds the whole conversation as JSON."""
    history_bytes: int
    """Of all runs of the chain, without what continue-as-new carries over."""
    carried_bytes: int
    """What it carries over: inputs, and the results of `carry`."""
    stored_bytes: int
    """Of the files in the payload folder, to which history refers."""
    history_bytes_per_step_beside_content: float
    """(`history_bytes` - `content_bytes`) / `steps`."""
    continued_as_new: int
    events: int
    seconds: float
    ms_per_step_first_tenth: float | None
    ms_per_step_last_tenth: float | None
    worker_peak_mb: float
    result_bytes: int
    bare_client: Tenths | None


async def measure(servers: Bed, steps: int, result_bytes: int, *, bare: bool = True) -> LongRun:
    """Let Onward, and with `bare` the bare client too, do `steps` steps."""
    mine, theirs = (Work(f"long-{who}", steps, "look", result_bytes) for who in ("run", "bare"))
    async with ONWARD.ready(servers) as team, BARE.ready(servers) as bare_team:
        telling = asyncio.create_task(_tell(servers, mine))
        running = [_run(servers, team, mine)]
        if bare:
            await servers.take_turns([theirs.name, mine.name], block=max(1, steps // _PARTS))
            running.append(_run(servers, bare_team, theirs))
        try:
            ours, *others = await asyncio.gather(*running)
        finally:
            telling.cancel()
        return _found(servers, ours, others, peak_mb(team.pid or 0), result_bytes)


async def _run(servers: Bed, team: Team, work: Work) -> Ran:
    ran = await team.run(work)
    if ran.died:
        await servers.take_turns([], block=1)  # the other one must not wait for it
    return ran


async def _tell(servers: Bed, work: Work) -> None:
    while True:
        await asyncio.sleep(_TELL_S)
        say(f"step {(await servers.seen(work.name)).steps:,} of {work.steps:,}")


def _found(
    servers: Bed, ours: Ran, others: Sequence[Ran], worker_peak_mb: float, result_bytes: int
) -> LongRun:
    if ours.sizes is None:
        raise AssertionError("a run on Temporal has a history")
    content, steps = ours.seen.progress.body_bytes, ours.seen.steps
    stored = (servers.folder / "payloads").rglob("*")
    return LongRun(
        steps=steps,
        finished=not ours.died,
        died=ours.died,
        requests=ours.seen.progress.requests,
        content_bytes=content,
        history_bytes=ours.sizes.history_bytes,
        carried_bytes=ours.sizes.carried_bytes,
        stored_bytes=sum(file.stat().st_size for file in stored if file.is_file()),
        history_bytes_per_step_beside_content=round(
            (ours.sizes.history_bytes - content) / max(1, steps), 1
        ),
        continued_as_new=ours.sizes.continued_as_new,
        events=ours.sizes.events,
        seconds=round(ours.seconds, 1),
        worker_peak_mb=worker_peak_mb,
        result_bytes=result_bytes,
        bare_client=_tenths(others[0]) if others else None,
        **asdict(_tenths(ours)),
    )


def _tenths(ran: Ran) -> Tenths:
    first, last = ran.seen.ms_per_step(last=0.1), ran.seen.ms_per_step(first=0.9)
    return Tenths(_rounded(first), _rounded(last))


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; returns 0 where the run finished, else 1."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=number, default=1000, help="replies of Claude (1000)")
    parser.add_argument(
        "--result-bytes", type=number, default=16_384, help="of each tool result (16384)"
    )
    parser.add_argument("--no-bare", action="store_true", help="leave the bare client out")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args(arguments)

    async def measured() -> LongRun:
        async with bed() as servers:
            return await measure(servers, asked.steps, asked.result_bytes, bare=not asked.no_bare)

    try:
        found = asyncio.run(measured())
    except OnwardError as error:
        say(f"error: {error}")
        return 1
    if found.died:
        say(f"error: the run died: {found.died}")
    sys.stdout.write(as_json(asdict(found)) if asked.json else table([asdict(found)]))
    return 0 if found.finished else 1


def table(found: Sequence[dict[str, Any]]) -> str:
    """Make the table of `docs/performance.md` of what `--json` prints, a column for each run."""
    columns = [_flat(run) for run in found]
    titles = " | ".join(f"{run['steps']:,} steps" for run in found)
    lines = [f"| | {titles} |"]
    lines.append("|---|" + "---:|" * len(columns))
    shown = {name: [_shown(column.get(name)) for column in columns] for name in columns[0]}
    lines += [f"| {name} | {' | '.join(values)} |" for name, values in shown.items()]
    return "\n".join(lines) + "\n"


def _flat(run: dict[str, Any]) -> dict[str, Any]:
    bare: dict[str, Any] = run["bare_client"] or {}
    rows = {name: value for name, value in run.items() if name not in ("bare_client", "died")}
    rows |= {f"{name} of the bare client": value for name, value in bare.items()}
    return {name.replace("_", " "): value for name, value in rows.items()}


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
