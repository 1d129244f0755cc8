"""Any Python value as plain JSON values, the same for the same input, and never too much of it."""

import dataclasses
import enum
import hashlib
import inspect
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import pydantic
import pydantic_core

MAX_DEPTH = 40
MAX_NODES = 1_000_000
"""Walking more values than this would take many seconds."""

_BAD_CHARACTERS = re.compile("[\ud800-\udfff\x00]")
_ADDRESS = re.compile(r"( at)? 0x[0-9a-fA-F]{4,}")
_MAX_INT_BITS = 4096


def clean(text: str) -> str:
    """Replace what no JSON body may hold: lone surrogates, and NUL. Pairs of surrogates join."""
    if not _BAD_CHARACTERS.search(text):
        return str.__str__(text)
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "\ufffd")


def describe_bytes(data: bytes) -> str:
    """Return bytes as the text that they are, or else name their size and hash."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        digest = hashlib.sha256(data).hexdigest()[:16]
        return f"[binary data, {len(data)} bytes, sha256 {digest}…]"
    return clean(text)


class Plainer:
    """Turns one value plain. Counts what it has produced, and leaves out the rest with a note."""

    def __init__(self, max_characters: int) -> None:
        self._nodes = MAX_NODES
        self._max_characters = self._characters = max_characters
        self._open: set[int] = set()

    def plain(self, value: object, depth: int = 0) -> Any:
        """Return `value` as None, bool, int, float, str, list or dict with string keys."""
        self._nodes -= 1
        if isinstance(value, enum.Enum):
            return self.plain(value.value, depth)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if isinstance(value, str):
            return self._text(clean(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._text(describe_bytes(bytes(cast("bytes", value))))
        return self._composite(value, depth)

    def _composite(self, value: object, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            return "[nested deeper than is shown]"
        if id(value) in self._open:
            return "[contains itself]"
        self._open.add(id(value))
        try:
            return self._parts(value, depth + 1)
        except Exception:  # noqa: BLE001  (the value's own code runs here; the other values remain)
            return f"[a {type(value).__name__} that cannot be shown]"
        finally:
            self._open.discard(id(value))

    def _parts(self, value: object, depth: int) -> Any:
        fields = _fields(value)
        if fields is not None:
            return self._mapping(fields, depth)
        items = cast("Collection[object]", value)
        if isinstance(value, AbstractSet) and not isinstance(value, Sequence):
            return self._ordered(items, depth)
        sized = isinstance(value, Collection) and not isinstance(value, type)
        if sized and not _is_array(items):
            return self._items(items, len(items), depth)
        return self._leaf(items, depth)

    def _items(self, items: Iterable[object], length: int, depth: int) -> list[Any]:
        shown: list[Any] = []
        for item in items:
            if self._nodes <= 0 or self._characters <= 0:
                shown.append(f"[{length - len(shown)} more items left out]")
                break
            shown.append(self.plain(item, depth))
        return shown

    def _ordered(self, items: Iterable[object], depth: int) -> list[Any]:
        # A set's own order differs from process to process: each item is made plain by itself,
        # then sorted by its text, so that what is left out does not depend on that order.
        texts = sorted(
            json.dumps(Plainer(self._max_characters).plain(item, depth), sort_keys=True)
            for item in items
        )
        return self._items((json.loads(text) for text in texts), len(texts), depth)

    def _mapping(self, mapping: Mapping[object, object], depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key, item in mapping.items():
            if self._nodes <= 0 or self._characters <= 0:
                shown["…"] = f"[{len(mapping) - len(shown)} more entries left out]"
                break
            shown[self._key(key, shown)] = self.plain(item, depth)
        return shown

    def _key(self, key: object, taken: Mapping[str, Any]) -> str:
        plain = self.plain(key, MAX_DEPTH - 1)
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
        # 1 and "1" are two keys in Python, one in JSON.
        return text if text not in taken else f"{text} ({type(key).__name__})"

    def _leaf(self, value: object, depth: int) -> Any:
        if isinstance(value, BaseException):
            return self._text(clean(f"{type(value).__name__}: {value}"))
        if isinstance(value, type) or inspect.isroutine(value) or inspect.ismodule(value):
            return self._text(clean(getattr(value, "__qualname__", None) or value.__name__))
        if _is_array(value):
            return self.plain(cast("Any", value).tolist(), depth)
        if inspect.isgenerator(value) or inspect.isasyncgen(value) or inspect.iscoroutine(value):
            return f"[a {type(value).__name__}, which was not run: return its values instead]"
        return self._known(value, depth)

    def _known(self, value: object, depth: int) -> Any:
        """Leave dates, decimals, UUIDs, paths and the like to pydantic, the rest to `repr`."""
        try:
            known = pydantic_core.to_jsonable_python(value, inf_nan_mode="strings")
        except (ValueError, TypeError):  # what pydantic does not know, or cannot encode
            return self._text(clean(_ADDRESS.sub("", repr(value))))
        return self.plain(known, depth)

    def _text(self, text: str) -> str:
        allowed = max(self._characters, 0)
        self._characters -= len(text)
        if len(text) <= allowed:
            return text
        return f"{text[:allowed]}[… {len(text) - allowed} more characters left out]"


def _fields(value: object) -> Mapping[Any, object] | None:
    """Return what a value holds by name; None if it has no names."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, object]", value)
    if isinstance(value, type):
        return None
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="python", warnings=False)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(cast("object", value), "_asdict"):
        return cast("Mapping[Any, object]", cast("Any", value)._asdict())  # a named tuple
    return None


def _is_array(value: object) -> bool:
    """Recognise numpy's arrays and scalars, and tables alike, without importing any library."""
    return hasattr(value, "tolist") and hasattr(value, "dtype")


def _number(value: float) -> float | str:
    if isinstance(value, int):
        # Python refuses to write out very long integers.
        bits = value.bit_length()
        return int(value) if bits <= _MAX_INT_BITS else f"[an integer of {bits} bits]"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)
