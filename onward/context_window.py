"""How full a request to Claude is, in the model's tokens and in the bytes that the API takes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from onward import json_text
from onward.messages import ContextUse
from onward.models.table import capacity
from onward.usage import count, iterations

MAX_BODY_BYTES = 32_000_000
"""What the API takes in one request; it answers 413 to more."""
FULL_BYTES = 24_000_000
"""Of a request that is nearly full: what one more step adds must still fit."""
_FULL_PART = 0.8
"""Of a context window that is nearly full. The rest is for one step's results, a reply and, when it
comes to that, the summary."""
_BYTES_PER_TOKEN = 3
"""Fewer than of plain English, so that the estimate is not too low for code and other scripts."""
_IMAGE_TOKENS = 5_000
"""Of the largest image, whatever its bytes."""
_OWN = frozenset({"message", "fallback_message"})
_SERVERS_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
"""Calls of tools that the API runs: Claude reads their results in the same request."""


def context_use(message: str, model: str, body_bytes: int, window: int | None = None) -> ContextUse:
    """Say how full the window was when Claude answered with `message`, JSON text.

    `window`: tokens that the model takes; None: what our table says. After a summary, which no
    request has held yet, only its own tokens are known.
    """
    told = json_text.load_object(message)
    usage: dict[str, Any] = json_text.plain(told.get("usage") or {})
    tokens, known = _tokens(usage), capacity(model)
    if _in_rounds(told) and not usage.get("iterations"):
        # The API counted the prompt anew in each round, so that it may seem longer than any window.
        tokens = min(tokens, (body_bytes + len(message.encode())) // _BYTES_PER_TOKEN)
    return ContextUse(
        tokens=tokens,
        window=window or (known.context_window if known else None),
        body_bytes=body_bytes,
    )


def _in_rounds(message: Mapping[str, Any]) -> bool:
    blocks: list[dict[str, Any]] = message.get("content") or []
    return any(block.get("type") in _SERVERS_CALLS for block in blocks)


def nearly_full(last: ContextUse, turn: str, body_bytes: int, max_tokens: int) -> str:
    """Say why the next request is too full to be sent; empty: it is not.

    `last`: how full the window was before; `turn`: what is added, JSON text of its content.
    """
    if body_bytes > FULL_BYTES:
        return f"the request has {body_bytes:,} bytes of the {MAX_BODY_BYTES:,} that the API takes"
    tokens = last.tokens + turn_tokens(turn)
    if last.window and tokens > min(_FULL_PART * last.window, last.window - max_tokens):
        return f"the request has about {tokens:,} tokens of the model's {last.window:,}"
    return ""


def turn_tokens(turn: str) -> int:
    """Estimate the tokens of a user turn, JSON text of its content; rather too many than too few.

    The API counts an image by its size in pixels, not by its bytes.
    """
    images = [] if '"base64"' not in turn else list(_images(json.loads(turn)))
    text_bytes = len(turn.encode()) - sum(map(len, images))
    return text_bytes // _BYTES_PER_TOKEN + _IMAGE_TOKENS * len(images)


def _images(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _images(item)
    elif isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        source = found.get("source")
        if found.get("type") == "image" and isinstance(source, dict):
            yield str(cast("dict[str, Any]", source).get("data", ""))
        else:
            yield from _images(found.get("content"))


def _tokens(usage: dict[str, Any]) -> int:
    parts = iterations(usage)
    own = [entry for entry in parts if entry.get("type") in _OWN]
    if parts and not own:
        # A summary alone: what it summed up is gone, what it wrote is what comes next.
        return count(parts[-1], "output_tokens")
    last = own[-1] if own else usage
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(count(last, name) for name in (*names, "output_tokens"))
