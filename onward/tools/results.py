"""What a tool returned, or raised, as the content of a tool result that Claude's API accepts.

Done once, where the tool ran: the bounded and cleaned form is what is recorded, so it never
changes again. Nothing here raises, because at this point the effect has happened.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, cast

from onward.errors import ToolOutcome
from onward.tools.plain import Plainer, clean, describe_bytes

MAX_TEXT_BYTES = 64 * 1024
"""Of all text in one result, UTF-8."""
MAX_ERROR_BYTES = 8 * 1024
MAX_IMAGES_BYTES = 1_500_000
"""Of all images in one result, base64. The API takes 5 MB an image, Temporal 2 MiB a payload."""
MAX_BLOCKS = 100

_TAIL_PART = 4
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_NOTHING = "(The tool returned nothing.)"
_EMPTY = "(The tool returned an empty result.)"
_BLANK = "(The tool returned only whitespace.)"


def to_content(value: object) -> str:
    """Turn any value into the JSON text of a tool result's `content`; never raises.

    A string stays a string, a list of text and image blocks stays blocks, everything else becomes
    JSON text in a string. Text is cleaned of lone surrogates and NUL and bounded to 64 KiB, with a
    note on how much was left out; images to 1.5 MB. Equal values give equal bytes, and the content
    is never empty (the API would refuse it).
    """
    try:
        return _dumps(_content(value))
    except BaseException as error:  # noqa: BLE001  (the value's own code runs here, and may do anything)
        return _dumps(
            f"[a value of type {type(value).__name__}, not shown: {type(error).__name__}]"
        )


def error_content(error: BaseException) -> str:
    """Turn an exception into the JSON text of an error result's `content`; never raises.

    Type and message, never empty, at most 8 KiB; of a `Rejected` only the reason; of an HTTP error
    also what the server answered.
    """
    try:
        said = getattr(error, "content", None) if type(error).__name__ == "ToolError" else None
        return to_content(said) if said else _dumps(bound(_error_text(error), MAX_ERROR_BYTES))
    except BaseException:  # noqa: BLE001  (as above)
        return _dumps(f"{type(error).__name__} (its message cannot be shown)")


def bound(text: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Keep the beginning and the end of a text that is longer than `max_bytes` of UTF-8."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text
    room = max_bytes - len(_left_out(len(data), len(data)))
    tail = room // _TAIL_PART
    head = room - tail
    note = _left_out(len(data) - room, len(data))
    return f"{_cut(data[:head])}{note}{_cut(data[-tail:])}"


def _content(value: object) -> str | list[dict[str, Any]]:
    if value is None:
        return _NOTHING
    if isinstance(value, str):
        return _filled(bound(clean(value)))
    if isinstance(value, bytes | bytearray | memoryview):
        return _filled(bound(describe_bytes(bytes(cast("bytes", value)))))
    items = cast("list[object]", value)
    if isinstance(value, list) and not value:
        return _EMPTY
    if isinstance(value, list) and _are_blocks(items):
        return _blocks(cast("list[Mapping[str, Any]]", value))
    return bound(_dumps(Plainer(MAX_TEXT_BYTES).plain(items)))


def _filled(text: str) -> str:
    return text if text.strip() else (_BLANK if text else _EMPTY)


def _are_blocks(items: list[object]) -> bool:
    """Tell blocks of the API from a list of dicts that merely have a `type`."""
    return all(isinstance(item, dict) and "type" in item for item in items) and any(
        _text_of(item) is not None or _source_of(item) is not None
        for item in cast("list[Mapping[str, Any]]", items)
    )


def _blocks(items: list[Mapping[str, Any]]) -> str | list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    text_left, image_left = MAX_TEXT_BYTES, MAX_IMAGES_BYTES
    for item in items[:MAX_BLOCKS]:
        source = _source_of(item)
        if source is not None and len(source.get("data", "")) <= image_left:
            image_left -= len(source.get("data", ""))
            made.append({"type": "image", "source": source})
            continue
        text = bound(_block_text(item, source), max(text_left, 0)) if text_left > 0 else ""
        text_left -= len(text.encode())
        if text.strip():  # the API refuses an empty text block
            made.append({"type": "text", "text": text})
    if len(items) > MAX_BLOCKS or text_left <= 0:
        made.append({"type": "text", "text": f"[some of {len(items)} blocks left out]"})
    return made or _EMPTY


def _block_text(item: Mapping[str, Any], source: Mapping[str, str] | None) -> str:
    if source is not None:
        kind, size = source.get("media_type", "image"), len(source.get("data", ""))
        return f"[{kind} of {size} bytes in base64 left out; {MAX_IMAGES_BYTES} fit one result]"
    text = _text_of(item)
    return _dumps(Plainer(MAX_TEXT_BYTES).plain(item)) if text is None else clean(text)


def _text_of(item: Mapping[str, Any]) -> str | None:
    """Return the text of a text block; None if the API would not accept this as one."""
    text = item.get("text")
    known = set(item) <= {"type", "text", "cache_control", "citations"}
    return text if item.get("type") == "text" and known and isinstance(text, str) else None


def _source_of(item: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the source of an image block; None if the API would not accept this as one."""
    source = item.get("source")
    known = set(item) <= {"type", "source", "cache_control"}
    if item.get("type") != "image" or not known or not isinstance(source, dict):
        return None
    given = cast("dict[str, Any]", source)
    if set(given) == {"type", "url"} and given["type"] == "url" and isinstance(given["url"], str):
        return {"type": "url", "url": clean(given["url"])}
    fit = set(given) == {"type", "media_type", "data"} and given["type"] == "base64"
    if fit and given["media_type"] in _IMAGE_TYPES and _is_base64(given["data"]):
        return {"type": "base64", "media_type": given["media_type"], "data": given["data"]}
    return None


def _is_base64(data: object) -> bool:
    try:
        return isinstance(data, str) and bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _error_text(error: BaseException) -> str:
    message = clean(str(error)).strip()
    notes = [clean(str(note)) for note in getattr(error, "__notes__", ())]
    parts = [clean(_error_text(part)) for part in getattr(error, "exceptions", ())[:5]]
    if isinstance(error, ToolOutcome):
        head = message or f"{type(error).__name__} (no reason given)"
    else:
        head = (
            f"{type(error).__name__}: {message}"
            if message
            else f"{type(error).__name__} (no message)"
        )
    return "\n".join([head, *notes, *parts, *_answer(error)])


def _answer(error: BaseException) -> list[str]:
    """Return what an HTTP server said: the reason for a refusal is in the body, not the status."""
    if type(error).__name__ not in {"HTTPStatusError", "HTTPError"}:
        return []
    try:
        body = clean(str(cast("Any", error).response.text)).strip()
    except Exception:  # noqa: BLE001  (a body that was not read, or is no text)
        return []
    return [f"The server answered: {bound(body, MAX_ERROR_BYTES // 2)}"] if body else []


def _left_out(left: int, total: int) -> str:
    return f"\n[{left} of {total} bytes left out here]\n"


def _cut(data: bytes) -> str:
    # A cut inside a character leaves bytes that are none.
    return data.decode("utf-8", "ignore")


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
