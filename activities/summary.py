"""What a call would do, in one line, for a person to decide by: Claude can hide and forge nothing.

The whole input is shown to people besides, so a tool's own words hide nothing either.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

from onward import json_text
from onward.tools.options import Options

_LENGTH, _KEY_LENGTH = 160, 40
_BARE = re.compile(r"[\w.:/@+-]+")
"""Text that needs no quotes: nothing in it looks like another field."""
_ESCAPED = re.compile(r"\\.")


def summary_of(given: Any, options: Options) -> str:
    """Say what a call would do: in its tool's own words, or else by its arguments.

    `given`: the input as plain JSON values, whatever Claude made of it.
    """
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    return _words(options, fields) or _arguments(fields)


def _words(options: Options, fields: dict[str, Any]) -> str:
    if options.summary is None:
        return ""
    try:
        said = cast("object", options.summary(dict(fields)))
    except BaseException:  # noqa: BLE001  (the author's code, on whatever Claude sent)
        return ""
    text = said.strip() if isinstance(said, str) else ""
    shown = json_text.printable(text)
    return shown if len(shown) <= _LENGTH else f"{shown[: _LENGTH - 1]}…"


def _arguments(fields: dict[str, Any]) -> str:
    keys = [_cut(_text(key), _KEY_LENGTH) for key in fields]
    values = [_text(value) for value in fields.values()]
    room = _room([*map(len, values)], _LENGTH - sum(len(key) + 2 for key in keys))
    line = " ".join(f"{k}={_cut(v, room)}" for k, v in zip(keys, values, strict=True))
    return _cut(line, _LENGTH)


def _text(value: Any) -> str:
    bare = isinstance(value, str) and _BARE.fullmatch(value)
    return value if bare else json_text.printable(json_text.dumps(value))


def _room(lengths: Sequence[int], total: int) -> int:
    """Say how long each text may be: short ones stay whole, long ones share what they leave."""
    left = total
    for done, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - done)
        if length > share:
            return share
        left -= length
    return total


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    kept = f"{text[: max(length - 2, 0)]}…"
    # A quote left open would make the next field look like a part of this one.
    is_open = _ESCAPED.sub("", kept).count('"') % 2
    return f'{kept}"' if is_open else kept
