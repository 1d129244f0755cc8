"""The contender `pydantic_ai`: its agent made durable on Temporal as its documentation shows.

    TEMPORAL_ADDRESS=… ANTHROPIC_BASE_URL=… python -m benchmarks.pydantic_ai_agent QUEUE

The package is in the optional dependency group `peers`, so it is imported by name: its types are
not there where this is checked.
"""

import asyncio
import os
import sys
from importlib import import_module
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from benchmarks.usual_pattern import SLOTS
    from benchmarks.work import MAX_TOKENS, MODEL, SYSTEM, page

    _ai: Any = import_module("pydantic_ai")
    _durable: Any = import_module("pydantic_ai.durable_exec.temporal")

WORKFLOW = "pydantic_ai"


async def look(n: int, size: int) -> str:
    """Look at a page."""
    return page(n, size)


async def book(n: int, size: int) -> str:
    """Book a page."""
    return page(n, size)


_agent: Any = _ai.Agent(
    f"anthropic:{MODEL}",
    name="reader",
    instructions=SYSTEM,
    tools=[look, book],
    model_settings={"max_tokens": MAX_TOKENS},
    capabilities=[_durable.TemporalDurability()],
)
# Its own limit of 50 requests a run is for runaways.
_UNLIMITED: Any = _ai.UsageLimits(request_limit=None)


@workflow.defn(name=WORKFLOW)
class PydanticAI:
    """A workflow around the agent."""

    __pydantic_ai_agents__ = (_agent,)

    @workflow.run
    async def run(self, prompt: str) -> str:
        """Run the agent; returns Claude's last words."""
        result = await _agent.run(prompt, usage_limits=_UNLIMITED)
        return str(result.output)


async def work(task_queue: str) -> None:
    """Run a worker until the process is ended."""
    plugins = [_durable.PydanticAIPlugin()]
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=plugins)
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[PydanticAI],
        max_concurrent_activities=SLOTS,
    ):
        sys.stdout.write("polling\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
