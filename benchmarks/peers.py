"""The same work by four ways to run an agent: time per step, history, and where each one dies.

    python benchmarks/peers.py [--steps 10,50,150,200,500] [--rounds 3] [--json]

The contenders: the bare client (a loop that survives nothing), the usual pattern on Temporal (the
workflow passes the whole transcript to each activity), pydantic-ai's Temporal agent, and Onward.
One Temporal server, one Redis and one API that answers at once are shared, and the contenders take
turns, run by run. Once with a tool that reads, once with one that has an effect; only Onward knows
the difference.

pydantic-ai and the plots need the optional packages: `make peers`.
"""

import asyncio
import statistics
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.bed import Bed, as_json, bed, say
from benchmarks.contenders import EVERY, Contender, Ran, Team
from benchmarks.work import TOOLS, Tool, Work, number, numbers
from onward.errors import OnwardError

STEPS = (10, 50, 150, 200, 500)
_TENTH = 10


@dataclass(frozen=True)
class Cell:
    """What one contender made of one length of work; times are medians over the rounds."""

    contender: str
    tool: Tool
    steps: int
    """That were asked for."""
    answered: int
    """Replies that it got: fewer, if it died."""
    died: str
    """Why; empty: it finished."""
    ms_per_step: float | None
    """The whole run, its beginning and end included, by step; None: it died."""
    ms_per_step_first_tenth: float | None
    ms_per_step_last_tenth: float | None
    history_bytes: int
    """Of all runs of the chain, all that continue-as-new carries over included."""
    continued_as_new: int
    curve_ms: list[float]
    """Time per step in each tenth of the run."""


async def measure(
    servers: Bed,
    contenders: Sequence[Contender],
    steps: Sequence[int],
    *,
    rounds: int,
    result_bytes: int,
    tools: Sequence[Tool] = TOOLS,
) -> list[Cell]:
    """Let all contenders do work of all lengths, with one tool after the other."""
    async with AsyncExitStack() as stack:
        teams = {each: await stack.enter_async_context(each.ready(servers)) for each in contenders}
        await _warm_up(teams)
        works = [Work(f"{tool}-{n}", n, tool, result_bytes) for tool in tools for n in steps]
        return [cell for work in works for cell in await _alternated(teams, work, rounds)]


async def _warm_up(teams: dict[Contender, Team]) -> None:
    """Let every worker load what it loads once."""
    for contender, team in teams.items():
        if team.pid is not None:
            for tool in TOOLS:
                await team.run(Work(f"{contender.name}-{tool}-warm", 2, tool))


async def _alternated(teams: dict[Contender, Team], work: Work, rounds: int) -> list[Cell]:
    ran: dict[Contender, list[Ran]] = {contender: [] for contender in teams}
    for each in range(rounds):
        for contender, team in teams.items():
            mine = replace(work, name=f"{contender.name}-{work.name}-{each}")
            ran[contender].append(await team.run(mine))
    cells = [_cell(contender, work, runs) for contender, runs in ran.items()]
    for cell in cells:
        say(f"{cell.tool} {cell.steps:>4} {cell.contender:<14} {_shown(cell)}")
    return cells


def _cell(contender: Contender, work: Work, runs: Sequence[Ran]) -> Cell:
    last = runs[-1]
    dead = next((ran for ran in runs if ran.died), None)
    return Cell(
        contender=contender.name,
        tool=work.tool,
        steps=work.steps,
        answered=min(ran.seen.steps for ran in runs),
        died=dead.died if dead else "",
        ms_per_step=None if dead else _median(ran.seconds * 1000 / work.steps for ran in runs),
        ms_per_step_first_tenth=_median(ran.seen.ms_per_step(last=0.1) for ran in runs),
        ms_per_step_last_tenth=_median(ran.seen.ms_per_step(first=0.9) for ran in runs),
        history_bytes=last.sizes.all_bytes if last.sizes else 0,
        continued_as_new=last.sizes.continued_as_new if last.sizes else 0,
        curve_ms=_curve(runs),
    )


def _curve(runs: Sequence[Ran]) -> list[float]:
    tenths = [
        _median(ran.seen.ms_per_step(at / _TENTH, (at + 1) / _TENTH) for ran in runs)
        for at in range(_TENTH)
    ]
    return [ms for ms in tenths if ms is not None]


def _median(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 2) if known else None


# ---- what is shown


def table(found: Sequence[dict[str, Any]]) -> str:
    """Make the table of `docs/performance.md` of what `--json` prints, as Markdown."""
    counts = sorted({cell["steps"] for cell in found})
    titles = {contender.name: contender.title for contender in EVERY}
    lines = [
        f"| tool | contender | {' | '.join(f'{count} steps' for count in counts)} |",
        f"|---|---|{'---|' * len(counts)}",
    ]
    for tool in TOOLS:
        for name, title in titles.items():
            cells = {c["steps"]: c for c in found if (c["tool"], c["contender"]) == (tool, name)}
            if cells:
                shown = " | ".join(_shown(Cell(**cells[count])) for count in counts)
                lines.append(f"| `{tool}` | {title} | {shown} |")
    return "\n".join(lines) + "\n"


def _shown(cell: Cell) -> str:
    history = f", {cell.history_bytes / 1e6:.1f} MB" if cell.history_bytes else ""
    if cell.died:
        return f"died at step {cell.answered}{history}"
    return f"{cell.ms_per_step:.1f} ms{history}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=numbers, default=STEPS, help="lengths of work")
    parser.add_argument("--rounds", type=number, default=3, help="runs of each length (3)")
    parser.add_argument("--result-bytes", type=number, default=1024, help="of each result (1024)")
    names = [contender.name for contender in EVERY]
    parser.add_argument(
        "--without", action="append", default=[], choices=names, help="leave a contender out"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args(arguments)
    contenders = [contender for contender in EVERY if contender.name not in asked.without]

    async def measured() -> list[Cell]:
        async with bed() as servers:
            return await measure(
                servers,
                contenders,
                asked.steps,
                rounds=asked.rounds,
                result_bytes=asked.result_bytes,
            )

    try:
        cells = asyncio.run(measured())
    except OnwardError as error:
        say(f"error: {error}")
        return 1
    found = [asdict(cell) for cell in cells]
    sys.stdout.write(as_json(found) if asked.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
