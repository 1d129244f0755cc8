"""One streamed reply of Claude, folded from its events into plain JSON without loss.

The SDK's accumulators drop what they do not know, so the raw events are folded here. What cannot
be folded faithfully is refused, never guessed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from onward import json_text

_APPENDED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""Delta type to its field that holds a fragment."""
_OTHERS = ("citations_delta", "signature_delta", "compaction_delta")
_MAX_DEPTH = 200
"""Of a block. Python's parsers take 1,000 less the depth of the stack they run on."""
INVALID_JSON = "INVALID_JSON"
"""The one field that stands for a tool's arguments where they are no JSON."""


class StreamBroken(Exception):
    """The stream ended or said something before the reply was whole; nothing may be recorded."""


class UnknownDelta(Exception):
    """Something in the stream that this version cannot keep without loss."""


class Unanswerable(UnknownDelta):
    """Something in the reply itself that cannot be kept or answered, however it is asked for."""


class MessageFold:
    """Folds events, in order, into the message they describe.

    Feed parsed events to `add`; after the last, `message` is the reply as a dict that
    `json_text.dumps` writes with every number as Claude spelt it.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] | None = None
        self._blocks: list[_BlockFold] = []
        self._open: set[int] = set()
        self._usage: dict[str, Any] = {}
        self._whole = False

    @property
    def usage(self) -> dict[str, Any]:
        """Usage as reported so far, as plain values; empty before `message_start`."""
        return self._usage

    @property
    def model(self) -> str | None:
        """The model that answers, once it has said so."""
        return (self._message or {}).get("model")

    @property
    def whole(self) -> bool:
        """The message has come to its end: nothing that follows is a part of it."""
        return self._whole

    @property
    def message(self) -> dict[str, Any]:
        """The whole reply. Raises `StreamBroken` unless it was received to its proper end."""
        if self._message is None:
            raise StreamBroken("the stream held no message_start event")
        if not self._whole:
            raise StreamBroken("the stream ended before message_stop")
        if self._message.get("stop_reason") is None:
            raise StreamBroken("the stream named no stop_reason")
        if self._open and self._message["stop_reason"] == "tool_use":
            raise StreamBroken(f"content blocks {sorted(self._open)} were never closed")
        return {**self._message, "content": [each.block for each in self._blocks]}

    def add(self, event: dict[str, Any]) -> None:
        """Take one event. Raises `StreamBroken` if out of order, `UnknownDelta`."""
        if self._whole:
            return
        match event.get("type"):
            case "message_start":
                self._start(event["message"])
            case "content_block_start":
                self._start_block(event["index"], event["content_block"])
            case "content_block_delta":
                self._opened(event["index"]).add(event["delta"])
            case "content_block_stop":
                self._close(event["index"])
            case "message_delta":
                self._update(event)
            case "message_stop":
                self._stop()
            case _:
                pass  # `ping` and events that newer servers add carry no part of the reply

    def _start(self, message: dict[str, Any]) -> None:
        told_before = (self._message or {}).get("content") or ()
        if len(self._blocks) > len(told_before):
            raise StreamBroken("a second message began before the first one had ended")
        # One that begins anew before any block of it came: a gateway asked another server.
        self._message, self._blocks = dict(message), []
        # Where code that Claude runs calls tools, the API tells each next call whole right here.
        for block in message.get("content") or ():
            self._take(block)
        self._count()

    def _start_block(self, index: int, block: dict[str, Any]) -> None:
        if self._message is None:
            raise StreamBroken("a content block came before message_start")
        if index != len(self._blocks):
            raise StreamBroken(f"found content block {index}, expected {len(self._blocks)}")
        self._take(block)
        self._open.add(index)

    def _take(self, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use":
            _refuse_unreadable(block, caller=dict)
            _refuse_unanswerable(block, [other.block for other in self._blocks])
        self._blocks.append(_BlockFold(block))

    def _opened(self, index: int) -> "_BlockFold":
        if index not in self._open:
            raise StreamBroken(f"found a delta for content block {index}, which is not open")
        return self._blocks[index]

    def _close(self, index: int) -> None:
        if index in self._open:
            self._blocks[index].join()
            self._open.remove(index)

    def _stop(self) -> None:
        for index in self._open:  # cut off, or left open by a gateway
            self._blocks[index].join()
        self._whole = True

    def _update(self, event: dict[str, Any]) -> None:
        if self._message is None:
            raise StreamBroken("message_delta came before message_start")
        usage = _later(self._message.get("usage") or {}, event.get("usage") or {})
        beside = {k: v for k, v in event.items() if k not in {"type", "delta", "usage"}}
        told: dict[str, Any] = event.get("delta") or {}
        self._message = _later(self._message, {**beside, **told, "usage": usage})
        self._count()

    def _count(self) -> None:
        _refuse_unreadable(self._message or {}, model=str, usage=dict, container=dict)
        found: dict[str, Any] = (self._message or {}).get("usage") or {}
        try:
            self._usage = json_text.plain(found)
        except ValueError as error:
            raise Unanswerable(f"the usage cannot be counted: {error}") from error


class _BlockFold:
    """One content block, folded from its start and its deltas."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self.block = dict(start)
        """All that was told of it, but for the fragments that `join` has not put together yet."""
        self._fragments: dict[str, list[str]] = {}
        if self.block.get("type") == "text":
            _refuse_unreadable(self.block, text=str)
        _refuse_deep(json_text.dumps(self.block))

    def add(self, delta: dict[str, Any]) -> None:
        """Take one delta. Raises `UnknownDelta`."""
        kind, block = delta.get("type"), self.block
        if kind in _APPENDED:
            # Joined once, at the end: a long reply comes in tens of thousands of them.
            field = _APPENDED[kind]
            self._fragments.setdefault(field, []).append(_fragment(delta[field]))
        elif kind == "signature_delta":
            block["signature"] = delta["signature"]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        elif kind == "compaction_delta":
            # One tells it all; null means that there is no summary, and must go back as null.
            block.update({name: value for name, value in delta.items() if name != "type"})
        else:
            raise UnknownDelta(
                f"found delta type {kind!r}; expected one of {[*_APPENDED, *_OTHERS]}. "
                "Upgrade Onward to a version that knows it"
            )

    def join(self) -> None:
        """Put the fragments together. Raises `UnknownDelta`."""
        texts = {field: "".join(fragments) for field, fragments in self._fragments.items()}
        self._fragments.clear()
        given = texts.pop("partial_json", "")
        for field, text in texts.items():
            self.block[field] = (self.block.get(field) or "") + text
        if given.strip():
            self.block["input"] = _tool_input(given)


def _later(before: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """Return what is known after the end of a message told more of it.

    A null there does not take back what its beginning said.
    """
    return before | {k: v for k, v in told.items() if v is not None or k not in before}


def _fragment(text: object) -> str:
    if text is not None and not isinstance(text, str):
        raise TypeError(f"found {text!r} in a delta, expected text")
    return text or ""


def _refuse_unanswerable(block: dict[str, Any], before: Sequence[dict[str, Any]]) -> None:
    """Refuse a call whose result could not be sent back, before any effect of the reply."""
    named = all(_is_text(block.get(name)) for name in ("id", "name"))
    if not named or any(other.get("id") == block["id"] for other in before):
        raise Unanswerable(
            f"found a tool_use with id {block.get('id')!r} and name {block.get('name')!r}; "
            "expected a name, and an id of its own"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value == json_text.encodable(value)


def _refuse_unreadable(told: Mapping[str, Any], **kinds: type) -> None:
    """Refuse fields that would break whoever reads the reply, however often it is paid for."""
    for name, kind in kinds.items():
        if not isinstance(told.get(name), kind | None):
            found = f"found {name} {told[name]!r}"[:200]
            raise Unanswerable(f"{found}; expected {kind.__name__}")


def _refuse_deep(text: str) -> None:
    if (depth := json_text.depth(text)) > _MAX_DEPTH:
        # Recorded, it would break whoever parses the reply, for ever.
        raise Unanswerable(f"found a block nested {depth} deep, expected {_MAX_DEPTH} at most")


def _tool_input(text: str) -> Any:
    """Take the model's arguments as it wrote them, number literals included."""
    _refuse_deep(text)
    try:
        return json_text.raw(text)
    except ValueError:
        # Cut at max_tokens, or not JSON at all: the API documents this wrapper for sending it back.
        return {INVALID_JSON: text}
