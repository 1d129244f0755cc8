"""A run in which a scripted Claude asks for the tool once, and what it was told then."""

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import uuid4

from temporalio.client import WorkflowFailureError, WorkflowHandle

from onward.messages import RunRequest, RunResult
from onward.names import WORKFLOW
from onward.testing.crash_test.names import AGENT
from onward.testing.crash_test.servers import Servers
from onward.testing.messages_api import Script, Step

Told = Literal["done", "failed", "doubt", "nothing"]
"""What Claude was told of the call; `nothing`: the run failed, or came to no end in time."""

_TASK_TIMEOUT = timedelta(seconds=3)
_SHOWN_CHARS = 300


@dataclass(frozen=True)
class Answer:
    """How the call ended for Claude."""

    told: Told
    text: str
    """The result that Claude saw, or why there is none."""


async def answer(
    servers: Servers, queue: str, tool: str, given: dict[str, Any], deadline_s: float
) -> Answer:
    """Start the run on a task queue, and wait for what Claude is told of its call."""
    name = f"crashtest-{uuid4().hex[:12]}"
    servers.api.scripts[name] = _script(tool, given)
    handle: WorkflowHandle[Any, RunResult] = await servers.client.start_workflow(
        WORKFLOW,
        RunRequest(prompt=f"Go. [script:{name}]", agent=AGENT),
        id=name,
        task_queue=queue,
        task_timeout=_TASK_TIMEOUT,
        result_type=RunResult,
    )
    try:
        async with asyncio.timeout(deadline_s):
            return _told(servers, name, await handle.result())
    except WorkflowFailureError as error:
        return Answer("nothing", f"the run failed: {error.cause}")
    except TimeoutError:
        failure = await _last_failure(handle)
        return Answer("nothing", f"the run had no end after {deadline_s:.0f} s{failure}")


def _script(tool: str, given: dict[str, Any]) -> Script:
    asks = Step(content=[{"type": "tool_use", "name": tool, "input": given}])
    return Script(steps=[asks, Step(content=[{"type": "text", "text": "Done."}])])


def _told(servers: Servers, name: str, result: RunResult) -> Answer:
    seen = [json.loads(entry.body) for entry in servers.api.journal.of(name) if entry.step]
    if not seen:
        return Answer("nothing", f"the run ended, {result.outcome}: {result.detail}")
    (block,) = seen[-1]["messages"][-1]["content"]
    text = json.dumps(block["content"])[:_SHOWN_CHARS]
    if result.in_doubt:
        return Answer("doubt", text)
    return Answer("failed" if block.get("is_error") else "done", text)


async def _last_failure(handle: WorkflowHandle[Any, RunResult]) -> str:
    pending = (await handle.describe()).raw_description.pending_activities
    failures = [activity.last_failure.message for activity in pending]
    return f"; its last failure: {'; '.join(failures)}" if any(failures) else ""
