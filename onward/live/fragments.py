"""What Claude has written of a reply, in pieces for people who watch."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

What = Literal["text", "thinking", "tool", "server_tool", "arguments"]
"""Claude's words, a summary of its thoughts, the name of a tool that it is about to call or that
the API runs by itself, and a part of what a tool is given, JSON text."""

_BLOCKS: dict[str, tuple[What, str]] = {
    "text": ("text", "text"),
    "thinking": ("thinking", "thinking"),
    "compaction": ("text", "content"),
    "tool_use": ("tool", "name"),
    "server_tool_use": ("server_tool", "name"),
    "mcp_tool_use": ("server_tool", "name"),
}
_DELTAS: dict[str, tuple[What, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "compaction_delta": ("text", "content"),
    "input_json_delta": ("arguments", "partial_json"),
}


@dataclass(frozen=True)
class Fragment:
    """A piece of one content block."""

    block: int
    """Position of the block in the reply."""
    what: What
    text: str


def fragment_of(event: Mapping[str, Any]) -> Fragment | None:
    """Say what an event of a stream adds to what can be shown; None: nothing."""
    match event.get("type"):
        case "content_block_start":
            return _fragment(event["index"], event["content_block"], _BLOCKS)
        case "content_block_delta":
            return _fragment(event["index"], event["delta"], _DELTAS)
        case _:
            return None


def fragments_of(blocks: Iterable[Mapping[str, Any]]) -> Iterator[Fragment]:
    """Tell a whole reply, one fragment a block; what cannot be shown is left out."""
    for index, block in enumerate(blocks):
        if fragment := _fragment(index, block, _BLOCKS):
            yield fragment


def joined(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Join what follows on each other of the same block."""
    for (block, what), same in groupby(fragments, key=lambda each: (each.block, each.what)):
        yield Fragment(block, what, "".join(each.text for each in same))


def _fragment(
    index: int, given: Mapping[str, Any], known: Mapping[str, tuple[What, str]]
) -> Fragment | None:
    if (found := known.get(str(given.get("type")))) is None:
        return None
    what, field = found
    text = str(given.get(field) or "")
    # That Claude thinks is worth telling where it does not say what.
    return Fragment(index, what, text) if text or given["type"] == "thinking" else None
