"""JSON as the real API must see it: number literals kept, key order kept where it means something.

Newer models bind their thinking to the exact conversation before it. Whether `1.0` and `1`, or a
reordered tool input, count as a change is documented nowhere, so this server takes the strict
side: both do. Only a block's own fields may come in another order.
"""

import json
from typing import Any, NoReturn, Self, TypeAlias, TypeGuard

Object: TypeAlias = dict[str, Any]

_ORDERED = frozenset({"input", "input_schema", "input_examples"})
"""Below these keys, the order of keys is the author's or the model's, and is compared."""


class BodyError(ValueError):
    """A request body that is no JSON object in UTF-8; the text says what is wrong."""


class _Number(float):
    """A number with a fraction or exponent that remembers how it was written."""

    literal: str

    def __new__(cls, literal: str) -> Self:
        number = super().__new__(cls, literal)
        number.literal = literal
        return number


def is_object(value: object) -> TypeGuard[Object]:
    """Tell whether `value` is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Tell whether `value` is a JSON array."""
    return isinstance(value, list)


def dumps(value: object) -> str:
    """Return `value` as this server writes JSON: compact, keys in their own order, no escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def parse(text: str) -> Any:
    """Return the value of JSON `text`, with number literals remembered. Raises `ValueError`."""
    return json.loads(text, parse_float=_Number, parse_constant=_no_constant)


def parse_body(raw: bytes) -> Object:
    """Return the JSON object in `raw`; raise `BodyError` for what the real API cannot read."""
    try:
        value = parse(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BodyError(f"The request body is not valid JSON: {error}") from error
    if not is_object(value):
        raise BodyError("The request body is not valid JSON: expected an object")
    _refuse_lone_surrogates(value)
    return value


def canonical(value: object, *, ordered: bool = False) -> str:
    """Return text that is equal for two values exactly if the prefix check calls them equal.

    Keys are sorted except inside tool inputs and schemas (`ordered`), number literals are kept,
    and `cache_control` is left out, because moving a breakpoint is no change of conversation.
    """
    if is_object(value):
        items = value.items() if ordered else sorted(_compared(value), key=lambda item: item[0])
        fields = (
            f"{json.dumps(key)}:{canonical(field, ordered=ordered or key in _ORDERED)}"
            for key, field in items
        )
        return "{" + ",".join(fields) + "}"
    if is_array(value):
        return "[" + ",".join(canonical(item, ordered=ordered) for item in value) + "]"
    return value.literal if isinstance(value, _Number) else json.dumps(value)


def _compared(value: Object) -> list[tuple[str, Any]]:
    return [item for item in value.items() if item[0] != "cache_control"]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"unexpected {name}")


def _refuse_lone_surrogates(value: Object) -> None:
    # `json.loads` accepts "\ud83d" alone; the real API does not, and neither does UTF-8.
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BodyError(
            f"The request body is not valid JSON: no low surrogate in string: (char {error.start})"
        ) from error
