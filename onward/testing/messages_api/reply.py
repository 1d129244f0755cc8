"""From a step and a request to the exact reply: content and ids from the request alone.

No clock, no counter and no random number goes into them, so that a repeat of an identical request
is answered alike, by this process or by the next one. Only `usage` tells a repeat from the first:
what the first one wrote to the cache, the repeat reads from it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from onward.testing.messages_api.literal_json import Object, dumps, is_object, parse
from onward.testing.messages_api.script import Step
from onward.testing.messages_api.stream import (
    CALLS,
    UnknownDeltaError,
    decode,
    encode,
    events,
    fold,
    split,
)
from onward.testing.messages_api.usage import tokens

_OFFERED = {"tool_use": "toolu", "server_tool_use": "srvtoolu", "mcp_tool_use": "mcptoolu"}


@dataclass(frozen=True)
class Reply:
    """What is sent when nothing goes wrong."""

    status: int
    message: Object | None
    """None: recorded, and not to be understood by this server."""
    body: bytes
    """Of a request without streaming."""
    chunks: tuple[bytes, ...]
    """Of a stream, one an event; joined they are the body."""


@dataclass(frozen=True)
class Point:
    """Where in a script a request stands, and the request itself."""

    script: str
    step: int
    raw: bytes
    body: Object

    def id(self, prefix: str, salt: str = "") -> str:
        """Return an id that depends on script, step, request body and `salt` only."""
        head = f"{self.script}\0{self.step}\0{salt}\0".encode()
        return f"{prefix}_01{hashlib.sha256(head + self.raw).hexdigest()[:22]}"


def compose(step: Step, point: Point, prompt: Object) -> Reply:
    """Return the reply that `step` gives at `point`; `prompt`: the counters that tell of it.

    Raises `OSError` for a missing recording.
    """
    if step.recording is not None:
        return _recorded(_recording(step.recording), step.chunk_chars)
    cut = point.body["max_tokens"] < step.needs_tokens
    message = _message(step, point, prompt, cut=cut)
    body = {**message, "content": _cut_input(message["content"])} if cut else message
    stream = events(message, chunk_chars=step.chunk_chars, cut=cut)
    return Reply(200, body, dumps(body).encode(), tuple(map(encode, stream)))


def _message(step: Step, point: Point, prompt: Object, *, cut: bool) -> Object:
    content = [_with_id(block, point, index) for index, block in enumerate(step.content)]
    content = _cut_text(content) if cut else content
    message: Object = {
        "id": point.id("msg"),
        "type": "message",
        "role": "assistant",
        "model": step.model or point.body["model"],
        "content": content,
        "stop_reason": "max_tokens" if cut else step.stop_reason or _stop_reason(content),
        "stop_sequence": None,
        **step.fields,
    }
    told = {"output_tokens": tokens(dumps(content)), "service_tier": "standard"}
    return {**message, "usage": {**prompt, **told, **step.usage}}


def _with_id(block: Object, point: Point, index: int) -> Object:
    prefix = _OFFERED.get(block.get("type", ""))
    if prefix is None or "id" in block:
        return block
    return {"type": block["type"], "id": point.id(prefix, str(index)), **block}


def _stop_reason(content: list[Object]) -> str:
    return "tool_use" if any(block.get("type") == "tool_use" for block in content) else "end_turn"


def _cut_text(content: list[Object]) -> list[Object]:
    if not content or content[-1].get("type") != "text":
        return content
    text: str = content[-1]["text"]
    return [*content[:-1], {**content[-1], "text": text[: max(1, len(text) // 2)]}]


def _cut_input(content: list[Object]) -> list[Object]:
    # Without streaming, the API tells the input of a call that it could not finish as empty.
    if not content or content[-1].get("type") not in CALLS:
        return content
    return [*content[:-1], {**content[-1], "input": {}}]


def _recording(source: str | Object) -> Object:
    if not isinstance(source, str):
        return source
    found: Object = parse(Path(source).read_text(encoding="utf-8"))
    response: Object = found.get("response", found)
    return response


def _recorded(response: Object, chunk_chars: int) -> Reply:
    status: int = response.get("status", 200)
    if "sse" in response:
        sse: str = response["sse"]
        message, body = _folded(sse)
        return Reply(status, message, body, tuple(split(sse)))
    body_value: Object = response["body"]
    body = dumps(body_value).encode()
    if status != 200 or body_value.get("type") != "message":  # noqa: PLR2004
        return Reply(status, None, body, ())
    stream = events(body_value, chunk_chars=chunk_chars)
    return Reply(status, body_value, body, tuple(map(encode, stream)))


def _folded(sse: str) -> tuple[Object | None, bytes]:
    try:
        message = fold(decode(sse))
        return (message, dumps(message).encode()) if message else (None, b"")
    except (UnknownDeltaError, RecursionError):  # a test may nest as deep as no client can read
        return None, b""


def sent_message(reply: Reply) -> Object | None:
    """Return the reply's message as a client parses it, number literals and all."""
    if reply.message is None:
        return None
    parsed = parse(dumps(reply.message))
    return parsed if is_object(parsed) else None
