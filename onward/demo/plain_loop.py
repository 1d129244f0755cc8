"""The same agent as most people write it first: a loop, and a file to resume from.

    python -m onward.demo.plain_loop STATE.json WORKSPACE PROMPT

Nothing in here is made worse than usual. The conversation is saved after each step, atomically, and
a restarted process goes on from it. What it lacks is what this project is about: a record of what
was begun before it was finished, and keys that are the same when a call is made again.
"""

import asyncio
import json
import sys
import uuid
from pathlib import Path
from typing import Any, cast

from anthropic import AsyncAnthropic, beta_async_tool
from anthropic.lib.tools import BetaAsyncFunctionTool
from anthropic.lib.tools.agent_toolset import (
    AgentToolContext,
    beta_bash_tool,
    beta_edit_tool,
    beta_grep_tool,
    beta_read_tool,
)

from onward.demo.refunds import post
from onward.demo.script import KEYED_ENDPOINT, MODEL, PLAIN_ENDPOINT, SYSTEM

_MAX_TOKENS = 16_000
Tools = dict[str, BetaAsyncFunctionTool[Any]]


@beta_async_tool
async def refund(order_id: str, amount_cents: int) -> str:
    """Refund part or all of an order."""
    # The endpoint wants a key, so it gets one: a new one each time, as in many a code base.
    return json.dumps(await post(KEYED_ENDPOINT, order_id, amount_cents, key=uuid.uuid4().hex))


@beta_async_tool
async def legacy_refund(order_id: str, amount_cents: int) -> str:
    """Refund an order of the old shop, whose payments provider repeats whatever it is sent."""
    return json.dumps(await post(PLAIN_ENDPOINT, order_id, amount_cents))


async def run(state: Path, workspace: Path, prompt: str) -> None:
    """Go on from the saved conversation, or begin it, until Claude has nothing more to do."""
    messages = _saved(state) or [{"role": "user", "content": prompt}]
    async with AgentToolContext(workspace) as box, AsyncAnthropic(max_retries=2) as client:
        tools = _tools(box)
        while messages[-1]["role"] == "user":
            reply = await _ask(client, messages, tools)
            messages.append({"role": "assistant", "content": reply["content"]})
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            if calls:
                results = [await _result(tools, call) for call in calls]
                messages.append({"role": "user", "content": results})
            _save(state, messages)


def _saved(state: Path) -> list[Any]:
    return json.loads(state.read_text()) if state.exists() else []


def _tools(box: AgentToolContext) -> Tools:
    files = [beta_read_tool(box), beta_edit_tool(box), beta_grep_tool(box), beta_bash_tool(box)]
    every: list[BetaAsyncFunctionTool[Any]] = [*files, refund, legacy_refund]
    return {tool.name: tool for tool in every}


async def _ask(client: AsyncAnthropic, messages: list[Any], tools: Tools) -> dict[str, Any]:
    async with client.messages.stream(
        model=MODEL,
        max_tokens=_MAX_TOKENS,
        system=SYSTEM,
        messages=messages,
        tools=cast("Any", [tool.to_dict() for tool in tools.values()]),
    ) as stream:
        message = await stream.get_final_message()
    return message.to_dict(mode="json")


async def _result(tools: Tools, call: dict[str, Any]) -> dict[str, Any]:
    try:
        content = await tools[call["name"]].call(call["input"])
    except Exception as error:  # noqa: BLE001  (Claude is told, whatever it is)
        return {**_answer(call, str(error)), "is_error": True}
    return _answer(call, content)


def _answer(call: dict[str, Any], content: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call["id"], "content": content}


def _save(state: Path, messages: list[Any]) -> None:
    written = state.with_suffix(".new")
    written.write_text(json.dumps(messages))
    written.replace(state)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
