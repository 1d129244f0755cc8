"""How much of an API's rate limits two workers use, and how often they are refused.

    python -m benchmarks.rate_limits [--minutes 4] [--json]

Each of its limits in turn is made the scarce one. The API is the scripted one: it lets a minute's
worth be saved up, as the real one does, and refuses what exceeds that. Nothing is configured.
"""

import asyncio
import sys
import time
import uuid
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from temporalio.client import WorkflowHandle

from benchmarks.bed import Bed, as_json, bed, say
from benchmarks.onward_app import AGENT
from benchmarks.work import MODEL, number
from onward.errors import OnwardError
from onward.messages import RunRequest
from onward.names import WORKFLOW
from onward.rates import Rates, counted
from onward.testing.messages_api import Entry, Script, ScriptedAPI, Step
from onward.testing.processes import WorkerProcess

LIMITS = {
    "requests": Rates(50, 1_000_000, 200_000),
    "input_tokens": Rates(1_000, 40_000, 200_000),
    "output_tokens": Rates(1_000, 1_000_000, 20_000),
}
"""A minute, by what is scarce, and small enough for one machine. The others are out of reach."""
_RUNS, _STEPS = 24, 200
_MINUTE_S = 60


@dataclass(frozen=True)
class Used:
    """What reached the API from both workers."""

    scarce: str
    limit: int
    requests: int
    refused_in_first_minute: int
    refused_later: int
    used_share: float
    """Of the scarce limit, after the first minute."""
    used_a_minute: tuple[float, ...]
    """Of the scarce limit, minute by minute."""


async def measure(servers: Bed, scarce: str, minutes: int) -> Used:
    """Let many runs want to send all the time, for so many minutes."""
    queue = f"rate-limits-{uuid.uuid4().hex[:8]}"
    scripts = {f"run-{run}": _script(run) for run in range(_RUNS)}
    api = ScriptedAPI(scripts, rate_limits={MODEL: LIMITS[scarce]})
    async with api, _workers(servers, queue, api):
        began = time.time()
        handles = [await _start(servers, queue, script) for script in scripts]
        await asyncio.sleep(minutes * _MINUTE_S)
        seen = list(api.journal)
        for handle in handles:
            await handle.terminate()
    measured = [(entry.t - began, entry) for entry in seen if entry.t < began + minutes * _MINUTE_S]
    return _used(scarce, measured, minutes)


async def _start(servers: Bed, queue: str, script: str) -> WorkflowHandle[Any, Any]:
    request = RunRequest(prompt=f"Go. [script:{script}]", agent=AGENT, deployment="benchmark")
    return await servers.client.start_workflow(
        WORKFLOW, request, id=f"{queue}-{script}", task_queue=queue
    )


@asynccontextmanager
async def _workers(servers: Bed, queue: str, api: ScriptedAPI) -> AsyncGenerator[None]:
    env = servers.environment | {
        "ANTHROPIC_BASE_URL": api.url,
        "ONWARD_APP": "benchmarks.onward_app:app",
        "ONWARD_TASK_QUEUE": queue,
    }
    async with AsyncExitStack() as stack:
        for name in "ab":
            log = servers.folder / f"{queue}-{name}.log"
            worker = await WorkerProcess.start(env, log=log)
            stack.push_async_callback(worker.stop)
            await worker.ready()
        yield


def _script(run: int) -> Script:
    chance = Random(run)  # noqa: S311  (the same replies each time)
    look = {"type": "tool_use", "name": "look", "input": {"n": 1, "size": 200}}
    said = ["word " * chance.randint(20, 300) for _ in range(_STEPS)]
    return Script(steps=[Step(content=[{"type": "text", "text": text}, look]) for text in said])


def _used(scarce: str, seen: Sequence[tuple[float, Entry]], minutes: int) -> Used:
    limit = getattr(LIMITS[scarce], scarce)
    by_minute = [0.0] * minutes
    for at_s, entry in seen:
        if entry.usage:  # it was let in
            by_minute[int(at_s // _MINUTE_S)] += getattr(counted(entry.usage), scarce)
    refused = [at_s for at_s, entry in seen if entry.status == 429]  # noqa: PLR2004
    early = sum(at_s < _MINUTE_S for at_s in refused)
    return Used(
        scarce=scarce,
        limit=limit,
        requests=len(seen),
        refused_in_first_minute=early,
        refused_later=len(refused) - early,
        used_share=round(sum(by_minute[1:]) / limit / (minutes - 1), 3),
        used_a_minute=tuple(round(used / limit, 3) for used in by_minute),
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; returns 1 where a process does not start."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=number, default=4, help="for each limit (4)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args(arguments)

    async def measured() -> AsyncGenerator[dict[str, Any]]:
        async with bed() as servers:
            for scarce in LIMITS:
                say(f"{asked.minutes} minutes in which {scarce} are scarce")
                yield asdict(await measure(servers, scarce, asked.minutes))

    async def collected() -> list[dict[str, Any]]:
        return [found async for found in measured()]

    try:
        found = asyncio.run(collected())
    except OnwardError as error:
        say(f"error: {error}")
        return 1
    sys.stdout.write(as_json(found) if asked.json else table(found))
    return 0


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Make the table of `docs/rate-limits.md` of what `--json` prints, a row for each limit."""
    lines = [
        "| scarce | a minute | used after the first minute | refused in it | refused later |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {each['scarce'].replace('_', ' ')} | {each['limit']:,} | {each['used_share']:.1%} "
            f"| {each['refused_in_first_minute']} | {each['refused_later']} |"
            for each in found
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
