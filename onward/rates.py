"""A model's rates: how many requests and tokens a minute Claude's API takes, and who says so.

The API tells its limits in the headers of each response. `ONWARD_RATE_LIMITS` may set lower ones.
"""

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from onward.models.table import undated
from onward.usage import count

_POOLS = {
    "claude-sonnet-4-6": "claude-sonnet-4",
    "claude-sonnet-4-5": "claude-sonnet-4",
    "claude-opus-4-8": "claude-opus-4",
    "claude-opus-4-7": "claude-opus-4",
    "claude-opus-4-6": "claude-opus-4",
    "claude-opus-4-5": "claude-opus-4",
    "claude-fable-5-1": "claude-fable-5",
    "claude-mythos-5-1": "claude-mythos-5",
}
"""Models that the API counts as one."""
LOW = 0.1
"""Part of a limit below which so little is left that all workers must hear of it."""
_HEADERS = ("requests", "input-tokens", "output-tokens")
_CAP = re.compile(r"([\w.:-]+)\s*=\s*(\d+)\s*/\s*(\d+)\s*/\s*(\d+)")
_FORM = "model=requests/input tokens/output tokens a minute, as in claude-opus-5-5=50/30000/8000"


@dataclass(frozen=True)
class Rates:
    """Requests and tokens; a minute, where they are limits. None: not known, or not limited."""

    requests: float | None = None
    input_tokens: float | None = None
    """Those read from the cache are not counted."""
    output_tokens: float | None = None

    def __bool__(self) -> bool:
        return astuple(self) != (None, None, None)


@dataclass(frozen=True)
class Told:
    """What the headers of one response tell."""

    limits: Rates
    remaining: Rates
    """What was left when the request was let in; of tokens, to the nearest thousand."""

    @property
    def low(self) -> bool:
        """Little is left of what one of the limits allows."""
        pairs = zip(astuple(self.limits), astuple(self.remaining), strict=True)
        return any(most and left is not None and left < LOW * most for most, left in pairs)


def pool(model: str, *, fast: bool = False) -> str:
    """Name the models that share one limit with `model`, by its id with or without a date.

    `fast`: in fast mode, which has limits of its own.
    """
    name = undated(model)
    return _POOLS.get(name, name) + (":fast" if fast else "")


def told_by(headers: Mapping[str, str], *, fast: bool = False) -> Told:
    """Read the rate limit headers of a response; gateways and some clouds send none, or zeros."""
    prefix = "anthropic-fast" if fast else "anthropic-ratelimit"

    def of(what: str) -> Rates:
        names = (f"{prefix}-{kind}-{what}" for kind in _HEADERS)
        return Rates(*(_number(headers.get(name)) for name in names))

    limits = Rates(*(most or None for most in astuple(of("limit"))))
    return Told(limits, remaining=of("remaining"))


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def counted(usage: Mapping[str, Any]) -> Rates:
    """Count one request with this `usage` as the API counts it toward the limits."""
    read = count(usage, "input_tokens") + count(usage, "cache_creation_input_tokens")
    return Rates(1, read, count(usage, "output_tokens"))


def parse_caps(text: str) -> dict[str, Rates]:
    """Read `ONWARD_RATE_LIMITS`: limits by pool, of models separated by `;`.

    Raises ValueError, in words for people.
    """
    caps: dict[str, Rates] = {}
    for item in filter(None, map(str.strip, text.split(";"))):
        found = _CAP.fullmatch(item)
        if found is None:
            raise ValueError(f"found {item!r}, expected {_FORM}; more of them after a ';'")
        rates = Rates(*map(int, found.group(2, 3, 4)))
        if not all(astuple(rates)):
            raise ValueError(f"found {item!r}: nothing could be sent with a limit of 0")
        if (name := pool(found[1])) in caps:
            raise ValueError(f"found {item!r}: all models {name!r} share one limit; set it once")
        caps[name] = rates
    return caps
