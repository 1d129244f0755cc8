"""Every kind of key that Onward has in Redis, and when it goes.

What no kind fits is not Onward's; what may stay without an expiry is here with the reason. The
soak and the end of the test suite hold all keys against this list.
"""

import re
from dataclasses import dataclass

_RUN = r"onward:\{[^:}=]+:[0-9a-f-]{36}\}"


@dataclass(frozen=True)
class KeyKind:
    """One kind of key."""

    name: str
    pattern: re.Pattern[str]
    expires: str
    """When, in words."""
    stays: str = ""
    """Why a key may be without an expiry; empty: none may, at any time."""


def _kind(name: str, pattern: str, expires: str, stays: str = "") -> KeyKind:
    return KeyKind(name, re.compile(pattern), expires, stays)


_OF_ITS_RUN = "the namespace's retention and a day after the run's end"
_OPEN = "its run is open, or ended unheard since the janitor's last sweep"

KINDS = (
    _kind("run", _RUN, _OF_ITS_RUN, _OPEN),
    _kind("result", rf"{_RUN}:b:[0-9a-f]{{64}}", _OF_ITS_RUN, _OPEN),
    _kind("live reply", rf"{_RUN}:live", "ten minutes after the last word"),
    _kind(
        "business key",
        r"onward:\{=[0-9a-f]{64}\}(:b:[0-9a-f]{64})?",
        "90 days after it was last asked for",
        "a call under it is going on, or was given up since the janitor's last sweep",
    ),
    _kind(
        "paused agents",
        r"onward:\{paused\}:[^:]+",
        "never",
        "what people have paused stays paused; one key for each namespace",
    ),
    _kind("rate limit", r"onward:\{rate:[^}]+\}:pool:.+", "a day after the last request"),
    _kind("reservation", r"onward:\{rate:[^}]+\}:of:.+", "an hour, or with its request"),
    _kind("janitor", r"onward:\{janitor\}", "with the interval between two sweeps"),
    _kind(
        "worker", r"onward:\{workers\}:[^:]+:[^:]+:[0-9a-f]{32}", "ten seconds after its last sign"
    ),
    _kind("trial", r"onward:\{doctor\}", "a second after a worker's start"),
)


def kind_of(key: str) -> KeyKind | None:
    """Tell which kind a key is of; None for one that is not Onward's."""
    return next((kind for kind in KINDS if kind.pattern.fullmatch(key)), None)


def is_left_behind(key: str, *, expires: bool) -> bool:
    """Say whether a key is there for ever although none of its kind may be, or is of no kind."""
    kind = kind_of(key)
    return kind is None or not (expires or kind.stays)
