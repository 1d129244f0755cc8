"""What prompt caching saves: the same run with it, with it for an hour, and without.

    python benchmarks/caching.py [--steps 40] [--result-bytes 4096] [--json]

A real Temporal server, a real Redis, and Onward's scripted Messages API, which keeps a prompt cache
by the documented rules. Costs are those of its estimated tokens, at the model's list price.
"""

import asyncio
import sys
import uuid
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.bed import Bed, as_json, bed, say
from benchmarks.work import MAX_TOKENS, MODEL, number, page
from onward import Agent, App, tool
from onward.errors import OnwardError
from onward.messages import CachePolicy, RunRequest, RunResult, Spend
from onward.names import WORKFLOW
from onward.testing.messages_api import Script, ScriptedAPI, Step
from onward.testing.processes import WorkerProcess

_READY_S = 120.0
_SYSTEM = page(0, 8_000)
"""About 2,000 tokens, as an agent's instructions have."""
_WORDS = page(1, 400)
"""What Claude says in a step, beside its call."""


@tool(effect="read")
async def look(n: int, size: int) -> str:
    """Look at a page."""
    return page(n, size)


def _agent(cache: CachePolicy) -> Agent:
    return Agent(
        f"cache-{cache}",
        model=MODEL,
        system=_SYSTEM,
        tools=[look],
        max_tokens=MAX_TOKENS,
        cache=cache,
    )


app = App(_agent("auto"), _agent("1h"), _agent("off"))


@dataclass(frozen=True)
class Saved:
    """The fields are the keys of `--json`."""

    model: str
    steps: int
    """Replies of Claude; all but the last ask for a page."""
    result_bytes: int
    """Of each page."""
    input_tokens: int
    """Of all requests, however they were paid."""
    cache_read_share: float
    """Part of these that was read from the cache."""
    cost_usd: float
    """Of the run with `cache="auto"`, whose steps come soon after each other."""
    cost_usd_for_an_hour: float
    """With `cache="1h"`, as a run has that asks people."""
    cost_usd_without_caching: float
    """With `cache="off"`."""


async def measure(servers: Bed, steps: int, result_bytes: int) -> Saved:
    """Let one worker do the same work under each policy, each in a cache of its own."""
    auto, hour, off = [
        await _spend(servers, policy, _script(steps, result_bytes))
        for policy in ("auto", "1h", "off")
    ]
    prompt = auto.input_tokens + auto.cache_read_tokens + auto.cache_write_tokens
    return Saved(
        model=MODEL,
        steps=steps,
        result_bytes=result_bytes,
        input_tokens=prompt,
        cache_read_share=round(auto.cache_read_tokens / prompt, 4),
        cost_usd=float(auto.cost_usd),
        cost_usd_for_an_hour=float(hour.cost_usd),
        cost_usd_without_caching=float(off.cost_usd),
    )


def _script(steps: int, result_bytes: int) -> Script:
    says = {"type": "text", "text": _WORDS}
    calls = [
        {"type": "tool_use", "name": "look", "input": {"n": n, "size": result_bytes}}
        for n in range(1, steps)
    ]
    return Script(steps=[*(Step(content=[says, call]) for call in calls), Step(content=[says])])


async def _spend(servers: Bed, policy: str, script: Script) -> Spend:
    queue = f"caching-{policy}-{uuid.uuid4().hex[:8]}"
    async with ScriptedAPI({"default": script}) as api:
        settings = {
            "ANTHROPIC_BASE_URL": api.url,
            "ONWARD_APP": "benchmarks.caching:app",
            "ONWARD_TASK_QUEUE": queue,
        }
        log = servers.folder / f"{queue}.log"
        worker = await WorkerProcess.start(servers.environment | settings, log=log)
        try:
            await worker.logged("polling", _READY_S)
            result: RunResult = await servers.client.execute_workflow(
                WORKFLOW,
                RunRequest(prompt="Go through the book.", agent=f"cache-{policy}"),
                id=queue,
                task_queue=queue,
                result_type=RunResult,
            )
        finally:
            await worker.stop()
    return result.spend


def table(found: Mapping[str, Any]) -> str:
    """Make the table of `docs/caching.md` of what `--json` prints."""
    without = found["cost_usd_without_caching"]
    rows = {
        "without caching": without,
        "for five minutes": found["cost_usd"],
        "for an hour": found["cost_usd_for_an_hour"],
    }
    lines = [
        f"| {found['steps']} steps, {found['input_tokens']:,} input tokens | cost | of that |",
        "|---|---:|---:|",
        *(f"| {name} | ${cost:.3f} | {cost / without:.0%} |" for name, cost in rows.items()),
        f"\nRead from the cache: {found['cache_read_share']:.1%} of the input tokens.",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; returns 1 where a process does not start."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=number, default=40, help="replies of Claude (40)")
    parser.add_argument(
        "--result-bytes", type=number, default=4096, help="of each tool result (4096)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args(arguments)

    async def measured() -> Saved:
        async with bed() as servers:
            return await measure(servers, asked.steps, asked.result_bytes)

    try:
        found = asdict(asyncio.run(measured()))
    except OnwardError as error:
        say(f"error: {error}")
        return 1
    sys.stdout.write(as_json(found) if asked.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
