"""The contender `usual_pattern`: how agents on Temporal are usually written.

The workflow holds the transcript and passes it whole to an activity that asks Claude; each tool is
an activity of its own. Nothing in here is made worse than usual.

    TEMPORAL_ADDRESS=… ANTHROPIC_BASE_URL=… python -m benchmarks.usual_pattern QUEUE
"""

import asyncio
import os
import sys
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from anthropic import AsyncAnthropic

    from benchmarks.work import MAX_TOKENS, MODEL, SYSTEM, page, tool_definitions

WORKFLOW = "usual_pattern"
SLOTS = 200
"""Activities at once: as many as Onward's worker runs."""
_TIMEOUT = timedelta(minutes=10)

Object = dict[str, Any]


@workflow.defn(name=WORKFLOW)
class UsualPattern:
    """The agent loop with its transcript in memory."""

    @workflow.run
    async def run(self, prompt: str) -> int:
        """Ask Claude and run the tools until there is nothing more to do; returns the steps."""
        messages: list[Object] = [{"role": "user", "content": prompt}]
        while True:
            reply: Object = await _activity("ask_claude", messages)
            messages.append({"role": "assistant", "content": reply["content"]})
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            if not calls:
                return len(messages) // 2
            results = [await _activity(call["name"], call["input"]) for call in calls]
            answers = zip(calls, results, strict=True)
            messages.append({"role": "user", "content": [_answer(*each) for each in answers]})


async def _activity(name: str, given: Any) -> Any:
    return await workflow.execute_activity(name, given, start_to_close_timeout=_TIMEOUT)


def _answer(call: Object, result: str) -> Object:
    return {"type": "tool_result", "tool_use_id": call["id"], "content": result}


class Claude:
    """The activity that asks Claude."""

    def __init__(self, client: AsyncAnthropic) -> None:
        self._client = client

    @activity.defn
    async def ask_claude(self, messages: list[Any]) -> Object:
        """Ask for the next reply."""
        tools: Any = tool_definitions()
        reply = await self._client.messages.create(
            model=MODEL, max_tokens=MAX_TOKENS, system=SYSTEM, messages=messages, tools=tools
        )
        return reply.to_dict(mode="json")


@activity.defn
async def look(given: dict[str, int]) -> str:
    """Look at a page."""
    return page(**given)


@activity.defn
async def book(given: dict[str, int]) -> str:
    """Book a page."""
    return page(**given)


async def work(task_queue: str) -> None:
    """Run a worker until the process is ended."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with (
        AsyncAnthropic(max_retries=0) as anthropic,
        Worker(
            client,
            task_queue=task_queue,
            workflows=[UsualPattern],
            activities=[Claude(anthropic).ask_claude, look, book],
            max_concurrent_activities=SLOTS,
        ),
    ):
        sys.stdout.write("polling\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
