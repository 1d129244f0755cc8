"""What a tool returned, or raised, as the content of a tool result that Claude's API accepts.

Done once, where the tool ran: the bounded and cleaned form is what is recorded, so it never
changes again. What it leaves out is kept beside it as the result's whole text, for `read_result`.
Nothing here raises, because at this point the effect has happened.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from onward.errors import ToolOutcome
from onward.tools.image_size import image_size
from onward.tools.plain import Plainer, clean, describe_bytes

MAX_TEXT_BYTES = 64 * 1024
"""Of all text in one result, UTF-8."""
MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Of a result's whole text, UTF-8; beyond it the middle is gone for good."""
MAX_ERROR_BYTES = 8 * 1024
MAX_IMAGES_BYTES = 2_500_000
"""Of all images in one result, base64. The API takes 32 MB in one request, and all are sent again
with each one until a summary takes their place."""
MAX_IMAGE_PIXELS = 2_000
"""Of an image's longer side. The API refuses a request of more than 20 images where one is larger,
and what was sent once is in every later request."""
MAX_BLOCKS = 100

_TAIL_PART = 4
_NOTE_BYTES = 200
"""Room for the note on what is left out."""
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_NOTHING = "(The tool returned nothing.)"
_EMPTY = "(The tool returned an empty result.)"
_BLANK = "(The tool returned only whitespace.)"


@dataclass(frozen=True)
class Shown:
    """What Claude is told of a value."""

    content: str
    """JSON text of a tool result's `content`."""
    whole: str = ""
    """The whole text, where the content says where to read on in it."""


def show(value: object, call: str = "") -> Shown:
    """Turn any value into a tool result's `content`, and what that leaves out; never raises.

    A string stays a string, a list of text and image blocks stays blocks, everything else becomes
    JSON text in a string. Text is cleaned of lone surrogates and NUL and bounded to 64 KiB, with a
    note on how much was left out, which for a result of `call` says how to read it; images to
    2.5 MB, and 2,000 pixels a side. Equal values give equal bytes, and the content is never empty
    (the API would refuse it).
    """
    try:
        return _shown(value, call)
    except BaseException as error:  # noqa: BLE001  (the value's own code runs here, and may do anything)
        kind = type(value).__name__
        return Shown(_dumps(f"[a value of type {kind}, not shown: {type(error).__name__}]"))


def to_content(value: object) -> str:
    """As `show`, without a way to read what is left out."""
    return show(value).content


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


def error_words(error: BaseException) -> str:
    """Name an error in a line that every encoding can carry; never raises."""
    said = json.loads(error_content(error))
    return (said if isinstance(said, str) else type(error).__name__)[:300]


def bound(text: str, max_bytes: int = MAX_TEXT_BYTES, call: str = "") -> str:
    """Keep the beginning and the end of a text that is longer than `max_bytes` of UTF-8."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text
    room = max_bytes - len(_left_out(len(data), len(data), call, len(data)))
    tail = room // _TAIL_PART
    head = cut(data[: room - tail])
    note = _left_out(len(data) - room, len(data), call, len(head.encode()))
    return f"{head}{note}{cut(data[-tail:])}"


def renamed(content: str, first: str, call: str) -> str:
    """Say in a content made for call `first` that `call` has the rest, which was copied there."""
    return content.replace(_dumps(_way(first))[1:-1], _dumps(_way(call))[1:-1])


def cut(data: bytes) -> str:
    """Return a piece of UTF-8 as text, without the halves of characters at its ends."""
    return data.decode("utf-8", "ignore")


def _shown(value: object, call: str) -> Shown:
    if (blocks := _blocks_of(value)) is not None:
        return _show_blocks(blocks, call)
    whole = bound(_text(value), MAX_WHOLE_BYTES)
    content = bound(whole, MAX_TEXT_BYTES, call)
    return Shown(_dumps(content), whole if call and content != whole else "")


def _text(value: object) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, str):
        return _filled(clean(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _filled(describe_bytes(bytes(cast("bytes", value))))
    if isinstance(value, list) and not value:
        return _EMPTY
    return _dumps(Plainer(MAX_WHOLE_BYTES).plain(cast("list[object]", value)))


def _filled(text: str) -> str:
    return text if text.strip() else (_BLANK if text else _EMPTY)


def _blocks_of(value: object) -> list[Mapping[str, Any]] | None:
    """Return blocks of the API; None for all else, such as dicts that merely have a `type`."""
    if not isinstance(value, list):
        return None
    items = cast("list[Mapping[str, Any]]", value)
    typed = all(isinstance(item, dict) and "type" in item for item in cast("list[object]", value))
    known = typed and any(_text_of(i) is not None or _source_of(i) is not None for i in items)
    return items if known else None


def _show_blocks(items: list[Mapping[str, Any]], call: str) -> Shown:
    parts = _parts(items)
    texts = [part for part in parts if isinstance(part, str)]
    whole = bound("\n".join(texts), MAX_WHOLE_BYTES)
    total = len(whole.encode())
    if total <= MAX_TEXT_BYTES and len(parts) <= MAX_BLOCKS:
        return Shown(_dumps([_block(part) for part in parts] or _EMPTY))
    made, shown = _first(parts)
    note = _left_out(total - shown, total, call, shown).strip()
    return Shown(_dumps([*made, _block(note)]), whole if call else "")


def _parts(items: list[Mapping[str, Any]]) -> list[str | dict[str, Any]]:
    """Turn each block into its text, or an image block as long as there is room for images."""
    parts: list[str | dict[str, Any]] = []
    image_left, text_left = MAX_IMAGES_BYTES, MAX_WHOLE_BYTES
    for number, item in enumerate(items):
        source = _source_of(item)
        size = len(source.get("data", "")) if source else 0
        fits = size <= image_left and len(parts) < MAX_BLOCKS
        if source is not None and fits and max(_pixels(source)) <= MAX_IMAGE_PIXELS:
            image_left -= size
            parts.append({"type": "image", "source": source})
            continue
        text = _block_text(item, source)
        text_left -= len(text)
        if text.strip():  # the API refuses an empty text block
            parts.append(text)
        if text_left < 0:
            parts.append(f"[{len(items) - number - 1} more blocks left out]")
            break
    return parts


def _first(parts: list[str | dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the first blocks that fit, and how many bytes of the joined texts they show."""
    made: list[dict[str, Any]] = []
    shown, room = 0, MAX_TEXT_BYTES - _NOTE_BYTES
    for part in parts[:MAX_BLOCKS]:
        if isinstance(part, dict):
            made.append(part)
            continue
        data = part.encode()
        text = cut(data[: max(room - shown, 0)])
        if text.strip():
            made.append(_block(text))
        shown += len(text.encode())
        if len(text) < len(part):
            room = shown  # the texts after it are not shown either, its images are
        else:
            shown += 1
    return made, shown


def _block(part: str | dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else part


def _block_text(item: Mapping[str, Any], source: Mapping[str, str] | None) -> str:
    if source is not None:
        kind, size = source.get("media_type", "image"), len(source.get("data", ""))
        width, height = _pixels(source)
        if max(width, height) > MAX_IMAGE_PIXELS:
            limit = f"{MAX_IMAGE_PIXELS} a side are shown; make a smaller one"
            return f"[{kind} of {width} x {height} pixels left out; {limit}]"
        return f"[{kind} of {size} bytes in base64 left out; {MAX_IMAGES_BYTES} fit one result]"
    text = _text_of(item)
    return _dumps(Plainer(MAX_WHOLE_BYTES).plain(item)) if text is None else clean(text)


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


def _pixels(source: Mapping[str, str]) -> tuple[int, int]:
    """Return an image's width and height; zeros where they cannot be told."""
    return image_size(base64.b64decode(source.get("data", ""))) or (0, 0)


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


def _left_out(left: int, total: int, call: str = "", offset: int = 0) -> str:
    way = f"; {_way(call)}{offset}) shows them" if call else ""
    return f"\n[{left} of {total} bytes left out here{way}]\n"


def _way(call: str) -> str:
    return f'read_result(call="{call}", offset='


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
