"""Every kind of key that Onward has in Redis, and when it goes.

What no kind fits is not Onward's; what may stay without an expiry is here with the reason. The
soak and the end of the test suite hold all keys against this list.
"""

import re
from dataclasses import dataclass

_RUN = r"onward:\{[^:}=]+:[^:}]+\}"
_SHA = "[0-9a-f]{64}"


@dataclass(frozen=True)
class KeyKind:
    """One kind of key."""

    name: str
    like: str
    """How such keys look, for people."""
    pattern: re.Pattern[str]
    expires: str
    """When, in words."""
    stays: str = ""
    """Why a key may be without an expiry; empty: none may, at any time."""


def _kind(name: str, like: str, pattern: str, expires: str, stays: str = "") -> KeyKind:
    return KeyKind(name, like, re.compile(pattern), expires, stays)


_AFTER_ITS_RUN = "the namespace's retention and a day after the run's end"
_OPEN = "its run is open, or ended unheard since the last sweep"

KINDS = (
    _kind("run", "onward:{R}", _RUN, _AFTER_ITS_RUN, _OPEN),
    _kind("result", "onward:{R}:b:SHA", f"{_RUN}:b:{_SHA}", _AFTER_ITS_RUN, _OPEN),
    _kind("live reply", "onward:{R}:live", f"{_RUN}:live", "ten minutes after its last word"),
    _kind(
        "business key",
        "onward:{=SHA}…",
        rf"onward:\{{={_SHA}\}}(:b:{_SHA})?",
        "90 days after it was last asked for",
        "a call under it goes on, or was given up since the last sweep",
    ),
    _kind(
        "paused agents",
        "onward:{paused}:NAMESPACE",
        r"onward:\{paused\}:[^:]+",
        "never",
        "what people paused stays paused; one key for a namespace",
    ),
    _kind(
        "rate limit",
        "onward:{rate:ACCOUNT}:pool:MODEL",
        r"onward:\{rate:[^}]+\}:pool:.+",
        "a day after the last request",
    ),
    _kind(
        "reservation",
        "onward:{rate:ACCOUNT}:of:STEP",
        r"onward:\{rate:[^}]+\}:of:.+",
        "with its request, or after an hour",
    ),
    _kind(
        "worker",
        "onward:{workers}:NAMESPACE:QUEUE:ID",
        r"onward:\{workers\}:[^:]+:[^:]+:[0-9a-f]{32}",
        "ten seconds after its last sign of life",
    ),
    _kind("janitor", "onward:{janitor}", r"onward:\{janitor\}", "when the next sweep is due"),
    _kind("trial", "onward:{doctor}", r"onward:\{doctor\}", "a second after a worker's start"),
)


def kind_of(key: str) -> KeyKind | None:
    """Tell which kind a key is of; None for one that is not Onward's."""
    return next((kind for kind in KINDS if kind.pattern.fullmatch(key)), None)


def is_left_behind(key: str, *, expires: bool) -> bool:
    """Say whether a key is there for ever although none of its kind may be, or is of no kind."""
    kind = kind_of(key)
    return kind is None or not (expires or kind.stays)
