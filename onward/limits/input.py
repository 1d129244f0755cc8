"""What a person types as limits of a run, checked before anything is started or changed."""

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from onward.errors import UsageError
from onward.limits.options import TypedLimits
from onward.messages import LimitOverrides

_MOST = {
    "max_steps": 10**6,
    "max_cost_usd": 10**6,
    "max_tokens": 10**12,
    "max_output_tokens": 10**12,
    "max_minutes": 365 * 24 * 60,
    "max_repeats": 10**6,
}
_ON_THE_WIRE = {"max_tokens": "max_tokens_total", "max_minutes": "max_wall_time"}
_ANY_COST = "none"


def parse_limits(typed: TypedLimits) -> LimitOverrides:
    """Make limits of what was typed; what was not typed stays as it is.

    Raises:
        UsageError: one is zero, negative, endless or no number.

    """
    given: dict[str, Any] = asdict(typed) | {"max_cost_usd": _dollars(typed.max_cost_usd)}
    for name, value in given.items():
        _refuse_odd(name, value)
    if typed.max_minutes is not None:
        given["max_minutes"] = typed.max_minutes * 60
    named = {_ON_THE_WIRE.get(name, name): value for name, value in given.items()}
    return LimitOverrides(**named, unlimited_cost=typed.max_cost_usd == _ANY_COST)


def _refuse_odd(name: str, value: Decimal | float | None) -> None:
    if value is not None and not 0 < value <= _MOST[name]:
        raise UsageError(
            f"--{name.replace('_', '-')} is {value:g}; it must be more than 0 and at most "
            f"{_MOST[name]:,}. Leave it out to keep the limit that there is"
        )


def _dollars(text: str | None) -> Decimal | None:
    if text is None or text == _ANY_COST:
        return None
    try:
        amount = Decimal(text.removeprefix("$"))
    except ArithmeticError:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise UsageError(
            f"--max-cost-usd is {text!r}; it must be an amount in dollars, as 2.50, or "
            f"{_ANY_COST!r} for no limit in money"
        )
    return amount
