"""JSON as text, to the letter: what Claude wrote is kept as Claude wrote it.

Python's own `json` turns `1.50` into `1.5` and `1e5` into `100000.0`. A conversation must go back
byte for byte (docs/decisions/0002), so numbers that Python would respell stay literals.
"""

import hashlib
import json
import math
import re
from typing import Any, cast

import simplejson

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]")


def loads(text: str | bytes) -> Any:
    """Parse JSON, keeping key order and the spelling of every number.

    Numbers that Python would write differently come back as `simplejson.RawJSON`, good only for
    `dumps`; to compute with values use `values`. Raises `ValueError` for anything but JSON.
    """
    if text[:1] == "\ufeff":  # the parser would skip it, and no other parser does
        raise ValueError("found a byte order mark, expected JSON")
    try:
        return simplejson.loads(
            text,
            parse_float=simplejson.RawJSON,
            parse_int=_literal_int,
            parse_constant=_no_constant,
        )
    except RecursionError as error:
        raise ValueError("found JSON that is nested too deep to be read") from error


def load_object(text: str | bytes) -> dict[str, Any]:
    """Parse JSON as `loads` does, where an object is expected. Raises `ValueError` otherwise."""
    value = loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"found JSON {type(value).__name__}, expected an object")  # noqa: TRY004
    return cast("dict[str, Any]", value)


def values(text: str) -> Any:
    """Parse JSON into plain Python values, to compute with.

    Raises `ValueError`, also for a number that Python cannot hold or would not write again.
    """
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def plain(value: Any) -> Any:
    """Turn a part of what `loads` gave into plain Python values. Raises `ValueError` as `values`.

    For a text of which only a part is computed with: elsewhere in it, any number may stand.
    """
    return values(dumps(value))


def dumps(value: Any) -> str:
    """Write compact JSON text that is always valid UTF-8.

    A lone surrogate, which no encoding can carry, stays the escape it was in the wire's JSON.
    """
    text = simplejson.dumps(
        value,
        ensure_ascii=False,
        separators=(",", ":"),
        allow_nan=False,
        namedtuple_as_object=False,
    )
    return _SURROGATES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def encodable(text: str) -> str:
    """Put the replacement character for each lone surrogate, which no encoding can carry."""
    return _SURROGATES.sub("\ufffd", text)


def printable(text: str) -> str:
    """Escape in JSON text what shows nothing or turns the text around it; its values stay."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def raw(text: str) -> Any:
    """Mark JSON text so that `dumps` puts it in unchanged. Raises `ValueError` if it is none."""
    loads(text)
    return simplejson.RawJSON(text)


def depth(text: str) -> int:
    """Count how deep JSON text is nested.

    Parsers give up somewhere near Python's recursion limit, sooner where the stack is deep already:
    what must not differ by that is bounded by this.
    """
    deepest = now = 0
    for bracket in re.findall(r"[\[\]{}]", _STRINGS.sub("", text)):
        now += 1 if bracket in "[{" else -1
        deepest = max(deepest, now)
    return deepest


def sha256(*parts: str) -> str:
    """Hex SHA-256 over the parts, each ended by a zero byte so that no two lists collide."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _literal_int(literal: str) -> Any:
    # `-0` would come back as `0`; and Python refuses integers of more than 4,300 digits.
    return simplejson.RawJSON(literal) if literal == "-0" or len(literal) > 4000 else int(literal)  # noqa: PLR2004


def _finite(literal: str) -> float:
    # `1e999` is JSON, and becomes an infinity that no JSON can hold.
    number = float(literal)
    if math.isinf(number):
        raise ValueError(f"found the number {literal}, expected one that fits a float")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"found {name}, which is not JSON; expected a number, a string or null")
