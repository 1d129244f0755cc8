"""Tags, `name=value`, by which people find their runs again."""

import json
import re
from collections.abc import Iterable, Mapping

from onward.errors import UsageError
from onward.run_input import unshowable

MAX_VALUE_CHARS = 190
"""With name and equals sign 255: where Temporal's index is an SQL database, no text is longer."""
MAX_ALL_BYTES = 2048
"""As JSON, which is how Temporal counts a search attribute that it takes."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def parse_tags(given: Iterable[str]) -> dict[str, str]:
    """Read tags as they are typed: `order=1042`.

    Raises:
        UsageError: one is not of that form, is given twice, or they are too long together.

    """
    tags = dict[str, str]()
    for text in given:
        name, value = _parsed(text)
        if name in tags:
            raise UsageError(f"found --tag {name} twice; a run has one value of each name")
        tags[name] = value
    if (size := len(json.dumps(as_texts(tags)))) > MAX_ALL_BYTES:
        raise UsageError(
            f"the tags take {size:,} bytes together; Temporal's index holds {MAX_ALL_BYTES:,}. "
            "Leave some out, or shorten them"
        )
    return tags


def as_texts(tags: Mapping[str, str]) -> list[str]:
    """Write them as they are typed, and as `OnwardTags` holds them."""
    return [f"{name}={value}" for name, value in tags.items()]


def _parsed(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and _NAME.fullmatch(name) and value.strip()):
        raise UsageError(
            f"--tag is {text!r}; expected name=value such as order=1042. A name has 1 to 64 "
            "letters, digits, points, - or _"
        )
    if len(value) > MAX_VALUE_CHARS:
        raise UsageError(
            f"the value of --tag {name} has {len(value)} characters; at most {MAX_VALUE_CHARS} "
            "are possible"
        )
    if odd := unshowable(value):
        raise UsageError(
            f"the value of --tag {name} holds {odd!r}, which cannot be shown or typed. Use "
            "letters, digits, spaces and punctuation"
        )
    return name, value
