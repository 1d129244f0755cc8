"""What the API says that a request used, read with care: gateways write it anew."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

_MOST = 2**53
"""Temporal takes no sum that is much larger, and the run would wait for ever."""


def count(usage: Mapping[str, Any], name: str) -> int:
    """Return a counter of a reply's `usage`; 0 where it is missing or no number of tokens."""
    # What a gateway writes there must not lose the reply that came with it.
    found = usage.get(name)
    return int(found) if isinstance(found, int | float) and 0 < found <= _MOST else 0


def iterations(usage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts that a reply's `usage` lists; where there are any, it is their sum."""
    found = usage.get("iterations")
    listed = cast("Sequence[Any]", found) if isinstance(found, list) else ()
    return [each for each in listed if isinstance(each, dict)]
