"""Limits of a run as a person types them, for every command that takes some."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter, Token


# Cyclopts itself makes 2 of `1.5`, and of `none` an option that was not typed: a run would have
# another limit than the person believes.
def _whole(_hint: object, tokens: Sequence[Token]) -> int:
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value!r} is no whole number") from None


def _number(_hint: object, tokens: Sequence[Token]) -> float:
    try:
        return float(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value!r} is no number") from None


# A lone `-1` is then a number to refuse, and no unknown option.
_Count = Annotated[int | None, Parameter(allow_leading_hyphen=True, converter=_whole)]
_Minutes = Annotated[float | None, Parameter(allow_leading_hyphen=True, converter=_number)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TypedLimits:
    """Options of a command; None where nothing was typed."""

    max_steps: _Count = None
    """End after so many steps, each a reply of Claude's."""
    max_cost_usd: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """End when so many dollars are spent; none: no limit in money."""
    max_tokens: _Count = None
    """End when so many tokens are used, of input and output together."""
    max_output_tokens: _Count = None
    """End when Claude has written so many tokens."""
    max_minutes: _Minutes = None
    """End so many minutes after the beginning; waiting for people is not counted."""
    max_repeats: _Count = None
    """End after so many steps in a row that ask for the same calls, all of which fail."""


NO_LIMITS_TYPED = TypedLimits()
