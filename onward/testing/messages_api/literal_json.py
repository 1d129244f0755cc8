"""JSON as the real API must see it: number literals kept, key order kept where it means something.

Newer models bind their thinking to the exact conversation before it. Whether `1.0` and `1`, or a
reordered tool input, count as a change is documented nowhere, so this server takes the strict
side: both do. Only a block's own fields may come in another order.
"""

import json
from typing import Any, NoReturn, Self, TypeAlias, TypeGuard

import simplejson

Object: TypeAlias = dict[str, Any]

_ORDERED = frozenset({"input", "input_schema", "input_examples"})
"""Below these keys, the order of keys is the author's or the model's, and is compared."""


class BodyError(ValueError):
    """A request body that is no JSON object in UTF-8; the text says what is wrong."""


class _Number(float):
    """A number that Python would write otherwise, and that remembers how it was written."""

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


def dumps(value: object, *, spaced: bool = False) -> str:
    """Return `value` as this server writes JSON: keys in their own order, numbers as written.

    Compact, unless `spaced`, as Claude writes the input of a call.
    """
    between = (", ", ": ") if spaced else (",", ":")
    return simplejson.dumps(_spelt(value), ensure_ascii=False, separators=between, allow_nan=False)


def parse(text: str) -> Any:
    """Return the value of JSON `text`, with number literals remembered. Raises `ValueError`."""
    return json.loads(
        text, parse_float=_Number, parse_int=_whole_number, parse_constant=_no_constant
    )


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


def _spelt(value: object) -> object:
    if isinstance(value, _Number):
        return simplejson.RawJSON(value.literal)
    if is_object(value):
        return {key: _spelt(field) for key, field in value.items()}
    return [_spelt(item) for item in value] if is_array(value) else value


def _whole_number(literal: str) -> object:
    # Python writes `-0` as `0`, and refuses to read what is longer than 4,300 digits.
    return _Number(literal) if literal == "-0" or len(literal) > 4000 else int(literal)  # noqa: PLR2004


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
