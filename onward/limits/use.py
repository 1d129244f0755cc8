"""How much of each limit of a run is used."""

import time
from dataclasses import dataclass
from decimal import Decimal

from onward.figures import count, exact_money, money
from onward.messages import Limits, RunStatus

_NOT_KNOWN = "?"


@dataclass(frozen=True)
class LimitUse:
    """One limit, and what counts against it."""

    name: str
    """As in `Limits`."""
    used: Decimal | float | None
    """None: not known."""
    most: Decimal | float | None
    """None: there is no such limit."""
    said: str
    """In words: `12 of 100 steps`."""

    @property
    def met(self) -> bool:
        """Nothing more is asked of Claude."""
        return self.used is not None and self.most is not None and self.used >= self.most


def limit_uses(status: RunStatus) -> tuple[LimitUse, ...]:
    """Say it for each limit; empty where none is known. `spend` may be a lower bound."""
    limits, spend = status.limits, status.spend
    if limits is None:
        return ()
    return (
        _counted("max_steps", status.steps, limits.max_steps, "step"),
        _cost(spend.cost_usd, limits.max_cost_usd),
        _counted("max_tokens_total", spend.tokens, limits.max_tokens_total, "token"),
        _counted(
            "max_output_tokens", spend.output_tokens, limits.max_output_tokens, "output token"
        ),
        _time(_went_s(status), limits.max_wall_time),
    )


def limits_line(limits: Limits) -> str:
    """Say when a run ends by itself."""
    most = limits.max_cost_usd
    return (
        f"at most {count(limits.max_steps, 'step')}, "
        f"{'any cost' if most is None else exact_money(most)}, "
        f"{limits.max_tokens_total:,} tokens ({limits.max_output_tokens:,} of output), "
        f"{_minutes(limits.max_wall_time)}"
    )


def _counted(name: str, used: int, most: int, noun: str) -> LimitUse:
    return LimitUse(name, used, most, f"{used:,} of {count(most, noun)}")


def _cost(used: Decimal, most: Decimal | None) -> LimitUse:
    limit = "any amount" if most is None else exact_money(most)
    return LimitUse("max_cost_usd", used, most, f"{money(used)} of {limit}")


def _time(used_s: float | None, most_s: float) -> LimitUse:
    used = _NOT_KNOWN if used_s is None else f"{used_s / 60:,.1f}".removesuffix(".0")
    return LimitUse("max_wall_time", used_s, most_s, f"{used} of {_minutes(most_s)}")


def _minutes(seconds: float) -> str:
    number = f"{seconds / 60:,.1f}".removesuffix(".0")
    return f"{number} minute{'' if number == '1' else 's'}"


def _went_s(status: RunStatus) -> float | None:
    """Count on from when anything happened last, unless people are waited for."""
    if not status.at_ms:
        return None
    since_s = 0.0 if status.waiting else time.time() - status.at_ms / 1000
    return round(status.went_s + max(since_s, 0.0), 3)
