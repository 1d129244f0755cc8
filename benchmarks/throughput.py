"""Many runs at once on one worker: steps per second, CPU per step, memory.

    python benchmarks/throughput.py [--runs 50,200] [--steps 20] [--rounds 3] [--json]

Onward and the usual pattern on Temporal, in turn, each time with a worker of its own. One Temporal
server, one Redis and one API that answers at once are shared, so on a small machine it is mostly
their work and the worker's together that is counted.
"""

import asyncio
import statistics
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.bed import Bed, as_json, bed, cpu_s, peak_mb, say
from benchmarks.contenders import ONWARD, USUAL, OnTemporal
from benchmarks.work import TOOLS, Tool, Work, number, numbers
from onward.errors import OnwardError

CONTENDERS = (USUAL, ONWARD)
RUNS = (50, 200)


@dataclass(frozen=True)
class Load:
    """What one contender made of so many runs at once; medians over the rounds."""

    contender: str
    tool: Tool
    runs: int
    finished: int
    """Fewest in a round."""
    steps_per_s: float
    worker_cpu_ms_per_step: float
    temporal_cpu_ms_per_step: float
    redis_cpu_ms_per_step: float
    api_cpu_ms_per_step: float
    """Of the API's double, which is no contender's but shares the machine."""
    worker_peak_mb: float


async def measure(
    servers: Bed,
    runs: Sequence[int],
    *,
    steps: int,
    rounds: int,
    contenders: Sequence[OnTemporal] = CONTENDERS,
    tools: Sequence[Tool] = TOOLS,
) -> list[Load]:
    """Let every contender do so many runs at once, with one tool after the other."""
    return [
        load
        for tool in tools
        for count in runs
        for load in await _alternated(
            servers, contenders, Work(f"{tool}-{count}", steps, tool), runs=count, rounds=rounds
        )
    ]


async def _alternated(
    servers: Bed, contenders: Sequence[OnTemporal], work: Work, *, runs: int, rounds: int
) -> list[Load]:
    loads: dict[OnTemporal, list[Load]] = {contender: [] for contender in contenders}
    for each in range(rounds):
        for contender in contenders:
            names = [f"{contender.name}-{work.name}-{each}-{number}" for number in range(runs)]
            works = [replace(work, name=name) for name in names]
            loads[contender].append(await _load(servers, contender, works))
    medians = [_median(each) for each in loads.values()]
    for load in medians:
        say(f"{load.tool} {load.runs:>4} {load.contender:<14} {load.steps_per_s:>8.1f} steps/s")
    return medians


async def _load(servers: Bed, contender: OnTemporal, works: Sequence[Work]) -> Load:
    async with contender.ready(servers) as team:
        pids = {"worker": team.pid or 0, **servers.pids()}
        await team.run(Work(f"{works[0].name}-warm", 2, works[0].tool))
        before_s, began = _cpu_s(pids), time.perf_counter()
        ran = await asyncio.gather(*(team.run(work, sizes=False) for work in works))
        seconds, after_s = time.perf_counter() - began, _cpu_s(pids)
        steps = sum(each.seen.steps for each in ran)
        cpu_ms = {name: (after_s[name] - before_s[name]) * 1000 / steps for name in pids}
        return Load(
            contender=contender.name,
            tool=works[0].tool,
            runs=len(works),
            finished=sum(not each.died for each in ran),
            steps_per_s=round(steps / seconds, 1),
            worker_peak_mb=peak_mb(pids["worker"]),
            **{f"{name}_cpu_ms_per_step": round(ms, 2) for name, ms in cpu_ms.items()},
        )


def _cpu_s(pids: Mapping[str, int]) -> dict[str, float]:
    return {name: cpu_s(pid) for name, pid in pids.items()}


def _median(loads: Sequence[Load]) -> Load:
    rows = [asdict(load) for load in loads]
    middle = {
        name: round(statistics.median(row[name] for row in rows), 2)
        for name, value in rows[0].items()
        if isinstance(value, float)
    }
    finished = min(load.finished for load in loads)
    merged: dict[str, Any] = rows[0] | middle | {"finished": finished}
    return Load(**merged)


# ---- what is shown


def table(found: Sequence[dict[str, Any]]) -> str:
    """Make the table of `docs/performance.md` of what `--json` prints, as Markdown."""
    titles = {contender.name: contender.title for contender in CONTENDERS}
    lines = [
        "| tool | runs | contender | steps/s | worker | Temporal | Redis | API | worker's peak |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| `{each['tool']}` | {each['runs']} | {titles[each['contender']]} "
            f"| {each['steps_per_s']:.0f} | {_cpu(each)} | {each['worker_peak_mb']:.0f} MB |"
            for each in found
        ),
    ]
    return "\n".join(lines) + "\n"


def _cpu(load: dict[str, Any]) -> str:
    processes = ("worker", "temporal", "redis", "api")
    return " | ".join(f"{load[f'{process}_cpu_ms_per_step']:.1f} ms" for process in processes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 0 where every run finished, else 1."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=numbers, default=RUNS, help="how many at once (50,200)")
    parser.add_argument("--steps", type=number, default=20, help="of each run (20)")
    parser.add_argument("--rounds", type=number, default=3, help="of each number of runs (3)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args(arguments)

    async def measured() -> list[Load]:
        async with bed() as servers:
            return await measure(servers, asked.runs, steps=asked.steps, rounds=asked.rounds)

    try:
        loads = asyncio.run(measured())
    except OnwardError as error:
        say(f"error: {error}")
        return 1
    found = [asdict(load) for load in loads]
    sys.stdout.write(as_json(found) if asked.json else table(found))
    return 0 if all(load.finished == load.runs for load in loads) else 1


if __name__ == "__main__":
    sys.exit(main())
