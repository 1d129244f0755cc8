"""Streams that no well-behaved Messages API sends, for tests of what is made of them."""

import json
from typing import Any

from agent_runs import MODEL

from onward.testing.messages_api import Step

USAGE = {"input_tokens": 50, "output_tokens": 1}


def call(arguments: str, **fields: Any) -> tuple[dict[str, Any], str]:
    """Make a block in which Claude calls `act` with `arguments`, given as text."""
    given: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "act", "input": {}}
    block = given | fields
    return {name: value for name, value in block.items() if value is not None}, arguments


def stream(
    *blocks: tuple[dict[str, Any], str],
    stop: str = "tool_use",
    usage: dict[str, Any] = USAGE,
    last_usage: dict[str, Any] | None = None,
) -> Step:
    """Make a step that is answered with exactly this stream."""
    told: dict[str, Any] = {"content": [], "stop_reason": None, "usage": usage}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL} | told
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (block, arguments) in enumerate(blocks):
        at = {"index": index}
        delta = {"type": "input_json_delta", "partial_json": arguments}
        events.append({"type": "content_block_start", **at, "content_block": block})
        if arguments:
            events.append({"type": "content_block_delta", **at, "delta": delta})
        events.append({"type": "content_block_stop", **at})
    end = {"delta": {"stop_reason": stop}, "usage": last_usage or {"output_tokens": 9}}
    events += [{"type": "message_delta", **end}, {"type": "message_stop"}]
    sse = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    headers = {"content-type": "text/event-stream"}
    return Step(recording={"status": 200, "headers": headers, "sse": sse})
