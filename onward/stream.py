"""One streamed reply of Claude, folded from its events into plain JSON without loss.

The SDK's accumulators drop what they do not know (claude-api.md, 7), so the raw events are folded
here. What cannot be folded faithfully is refused, never guessed.
"""

from typing import Any

from onward import json_text

_APPENDED = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
"""Delta type to the block's field that its fragment is appended to."""
_MAX_DEPTH = 200
"""Of a tool's arguments. Python's parsers take 1,000 less the depth of the stack they run on."""
INVALID_JSON = "INVALID_JSON"
"""The one field that stands for a tool's arguments where they are no JSON."""


class StreamBroken(Exception):
    """The stream ended or said something before the reply was whole; nothing may be recorded."""


class UnknownDelta(Exception):
    """Something in the stream that this version cannot keep without loss, or cannot answer."""


class MessageFold:
    """Folds events, in order, into the message they describe.

    Feed parsed events to `add`; after the last, `message` is the reply as a dict that
    `json_text.dumps` writes with every number as Claude spelt it.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] | None = None
        self._fragments: dict[int, list[str]] = {}
        self._open: set[int] = set()
        self._stopped = False

    @property
    def usage(self) -> dict[str, Any]:
        """Usage as reported so far, as plain values; empty before `message_start`."""
        found: dict[str, Any] = (self._message or {}).get("usage") or {}
        plain: dict[str, Any] = json_text.values(json_text.dumps(found))
        return plain

    @property
    def model(self) -> str | None:
        """The model that answers, once it has said so."""
        return (self._message or {}).get("model")

    @property
    def message(self) -> dict[str, Any]:
        """The whole reply. Raises `StreamBroken` unless it was received to its proper end."""
        if self._message is None:
            raise StreamBroken("the stream held no message_start event")
        if not self._stopped or self._message.get("stop_reason") is None:
            raise StreamBroken("the stream ended before message_stop")
        if self._open and self._message["stop_reason"] == "tool_use":
            raise StreamBroken(f"content blocks {sorted(self._open)} were never closed")
        return self._message

    def add(self, event: dict[str, Any]) -> None:
        """Take one event. Raises `StreamBroken` if out of order, `UnknownDelta`."""
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
                self._message["content"] = list(self._message.get("content") or [])
            case "content_block_start":
                self._start_block(event["index"], dict(event["content_block"]))
            case "content_block_delta":
                self._delta(event["index"], event["delta"])
            case "content_block_stop":
                self._close_block(event["index"])
            case "message_delta":
                self._finish(event)
            case "message_stop":
                self._stopped = True
            case _:
                pass  # `ping` and events that newer servers add carry no part of the reply

    def _blocks(self) -> list[dict[str, Any]]:
        if self._message is None:
            raise StreamBroken("a content block came before message_start")
        blocks: list[dict[str, Any]] = self._message["content"]
        return blocks

    def _start_block(self, index: int, block: dict[str, Any]) -> None:
        blocks = self._blocks()
        if index != len(blocks):
            raise StreamBroken(f"found content block {index}, expected {len(blocks)}")
        if block.get("type") == "tool_use":
            _refuse_unanswerable(block, blocks)
        blocks.append(block)
        self._open.add(index)

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        blocks = self._blocks()
        if index not in self._open:
            raise StreamBroken(f"found a delta for content block {index}, which is not open")
        kind, block = delta.get("type"), blocks[index]
        if kind == "input_json_delta":
            self._fragments.setdefault(index, []).append(delta["partial_json"])
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        elif kind == "compaction_delta":
            # One tells it all; null means that there is no summary, and must go back as null.
            block.update({name: value for name, value in delta.items() if name != "type"})
        elif kind in _APPENDED:
            _append(block, _APPENDED[kind], delta)
        else:
            raise UnknownDelta(
                f"found delta type {kind!r}; expected one of "
                f"{['input_json_delta', 'citations_delta', 'compaction_delta', *_APPENDED]}. "
                "Upgrade Onward to a version that knows it"
            )

    def _close_block(self, index: int) -> None:
        self._open.discard(index)
        text = "".join(self._fragments.pop(index, []))
        if text.strip():
            self._blocks()[index]["input"] = _tool_input(text)

    def _finish(self, event: dict[str, Any]) -> None:
        if self._message is None:
            raise StreamBroken("message_delta came before message_start")
        self._message.update(event.get("delta") or {})
        before: dict[str, Any] = self._message.get("usage") or {}
        last: dict[str, Any] = event.get("usage") or {}
        # A null here does not take back what message_start said.
        told = {k: v for k, v in last.items() if v is not None}
        usage = {**last, **before, **told}
        rest = {k: v for k, v in event.items() if k not in ("type", "delta", "usage")}
        self._message.update(rest, usage=usage)


def _refuse_unanswerable(block: dict[str, Any], before: list[dict[str, Any]]) -> None:
    """Refuse a call whose result could not be sent back, before any effect of the reply."""
    named = all(isinstance(block.get(name), str) for name in ("id", "name"))
    if not named or any(other.get("id") == block["id"] for other in before):
        raise UnknownDelta(
            f"found a tool_use with id {block.get('id')!r} and name {block.get('name')!r}; "
            "expected a name, and an id of its own"
        )


def _append(block: dict[str, Any], field: str, delta: dict[str, Any]) -> None:
    block[field] = (block.get(field) or "") + delta[field]


def _tool_input(text: str) -> Any:
    """Take the model's arguments as it wrote them, number literals included."""
    if (depth := json_text.depth(text)) > _MAX_DEPTH:
        # Recorded, it would break whoever parses the reply, for ever.
        raise UnknownDelta(f"found arguments nested {depth} deep, expected {_MAX_DEPTH} at most")
    try:
        return json_text.raw(text)
    except ValueError:
        # Cut at max_tokens, or not JSON at all: the API documents this wrapper for sending it back.
        return {INVALID_JSON: text}
