"""What a model takes, gives and can. One that is not in the table is unknown, never guessed."""

import re
from dataclasses import dataclass

_DATED = re.compile(r"-\d{8}$")


@dataclass(frozen=True)
class Capacity:
    """What one model can; sizes in tokens."""

    context_window: int
    """Of a whole request with its reply."""
    max_output: int
    """Of one reply."""
    sums_up: bool
    """The API takes a request for a summary in place of a reply."""


_LARGE = Capacity(context_window=1_000_000, max_output=128_000, sums_up=True)
_SMALL = Capacity(context_window=200_000, max_output=64_000, sums_up=False)

_CAPACITIES = {
    **dict.fromkeys(("claude-fable-5-2", "claude-fable-5-1", "claude-fable-5"), _LARGE),
    **dict.fromkeys(("claude-mythos-5-2", "claude-mythos-5-1", "claude-mythos-5"), _LARGE),
    **dict.fromkeys(("claude-opus-5-5", "claude-opus-5", "claude-opus-4-8"), _LARGE),
    **dict.fromkeys(("claude-opus-4-7", "claude-opus-4-6"), _LARGE),
    **dict.fromkeys(("claude-sonnet-5-5", "claude-sonnet-5", "claude-sonnet-4-6"), _LARGE),
    "claude-haiku-5-5": _LARGE,
    **dict.fromkeys(("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"), _SMALL),
}


def capacity(model: str) -> Capacity | None:
    """Find what a model can by its id, with or without a date; None: not known."""
    return _CAPACITIES.get(_DATED.sub("", model))
