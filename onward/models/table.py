"""What a model takes, gives and can. One that is not in the table is unknown, never guessed.

From platform.claude.com/docs in November 2026: `models/overview`, `about-claude/model-deprecations`
and, under `build-with-claude`, `thinking-troubleshooting`, `effort` and `fast-mode`; under
`manage-claude`, `data-residency`.
"""

import re
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, get_args

Effort = Literal["low", "medium", "high", "xhigh", "max"]
ThinkingName = Literal["adaptive", "disabled", "between_tools"]
"""A kind of thinking that needs no more said; `enabled` needs a budget."""
ThinkingKind = Literal[ThinkingName, "enabled"]

_VERSION = re.compile(r"-(\d{8}|latest)$")


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What one model can; sizes in tokens. What is not known to be refused is allowed."""

    context_window: int
    """Of a whole request with its reply."""
    max_output: int
    """Of one reply."""
    sums_up: bool = True
    """The API takes a request for a summary in place of a reply."""
    thinking: tuple[ThinkingKind, ...] = get_args(ThinkingKind)
    efforts: tuple[Effort, ...] = get_args(Effort)
    thinks_above_high: bool = False
    """Thinking cannot be turned off with an effort above `high`."""
    fast: bool = True
    forced_tools: bool = True
    """A `tool_choice` may force a call."""
    inference_geo: bool = True


_LARGE = Capacity(
    context_window=1_000_000, max_output=128_000, thinking=("adaptive", "disabled"), fast=False
)
_ALWAYS_THINKS = replace(_LARGE, thinking=("adaptive",))
_SONNET_5_5 = replace(
    _LARGE, thinking=("adaptive", "between_tools"), thinks_above_high=True, forced_tools=False
)
_CLAUDE_4_6 = replace(
    _LARGE,
    thinking=("adaptive", "disabled", "enabled"),
    efforts=("low", "medium", "high", "max"),
)
_CLAUDE_4_5 = Capacity(
    context_window=200_000,
    max_output=64_000,
    sums_up=False,
    thinking=("disabled", "enabled"),
    efforts=(),
    fast=False,
    inference_geo=False,
)

_CAPACITIES = {
    **dict.fromkeys(("claude-fable-5-2", "claude-mythos-5-2"), replace(_ALWAYS_THINKS, fast=True)),
    **dict.fromkeys(
        ("claude-fable-5-1", "claude-mythos-5-1"), replace(_ALWAYS_THINKS, forced_tools=False)
    ),
    **dict.fromkeys(("claude-fable-5", "claude-mythos-5"), _ALWAYS_THINKS),
    "claude-opus-5-5": replace(_ALWAYS_THINKS, fast=True, forced_tools=False),
    "claude-sonnet-5-5": _SONNET_5_5,
    "claude-haiku-5-5": replace(_LARGE, thinks_above_high=True),
    "claude-opus-5": replace(_LARGE, fast=True, thinks_above_high=True),
    **dict.fromkeys(("claude-sonnet-5", "claude-opus-4-8", "claude-opus-4-7"), _LARGE),
    **dict.fromkeys(("claude-opus-4-6", "claude-sonnet-4-6"), _CLAUDE_4_6),
    "claude-opus-4-5": replace(_CLAUDE_4_5, efforts=("low", "medium", "high")),
    **dict.fromkeys(("claude-sonnet-4-5", "claude-haiku-4-5"), _CLAUDE_4_5),
}

_RETIRED = {
    "claude-opus-4-1": date(2026, 8, 5),
    **dict.fromkeys(("claude-opus-4", "claude-opus-4-0"), date(2026, 6, 15)),
    **dict.fromkeys(("claude-sonnet-4", "claude-sonnet-4-0"), date(2026, 6, 15)),
    **dict.fromkeys(("claude-3-7-sonnet", "claude-3-5-haiku"), date(2026, 2, 19)),
    "claude-3-haiku": date(2026, 4, 20),
    "claude-3-opus": date(2026, 1, 5),
    "claude-3-5-sonnet": date(2025, 10, 28),
    **dict.fromkeys(("claude-3-sonnet", "claude-2.1", "claude-2.0"), date(2025, 7, 21)),
}
_DEPRECATED = {
    "claude-mythos-preview": date(2026, 6, 30),
    "claude-sonnet-4-5": date(2026, 11, 30),
    "claude-opus-4-5": date(2027, 1, 22),
}
"""When they are to be retired. A date that has passed proves nothing: only the API knows."""


def capacity(model: str) -> Capacity | None:
    """Find what a model can by its id, with or without a date; None: not known."""
    return _CAPACITIES.get(undated(model))


def retired_on(model: str) -> date | None:
    """Say since when the API no longer answers this model; None: it is not known to be retired."""
    return _RETIRED.get(undated(model))


def retires_on(model: str) -> date | None:
    """Say when a deprecated model is to be retired; None: it is not known to be deprecated."""
    return _DEPRECATED.get(undated(model))


def undated(model: str) -> str:
    """Return a model's id without the date of its version."""
    return _VERSION.sub("", model)
