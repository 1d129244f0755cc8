"""Numbers, money and times as people read them, in one way everywhere."""

from datetime import datetime
from decimal import Decimal

from onward.messages import RunStatus, Spend, Tally

_LEAST_SHOWN = Decimal("0.0001")


def count(number: int, noun: str) -> str:
    """Write how many there are."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def money(amount: Decimal) -> str:
    """Write dollars: cents, and below one dollar two digits more; what is little is never none."""
    if amount >= 1 or not amount:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= _LEAST_SHOWN else f"less than ${_LEAST_SHOWN}"


def exact_money(amount: Decimal) -> str:
    """Write dollars to the last digit, at least cents."""
    dollars, _, rest = f"{amount.normalize():,f}".partition(".")
    return f"${dollars}.{rest:0<2}"


def spend_line(spend: Spend, *, complete: bool = True) -> str:
    """Say what was spent, in one line; what is not known is said, never left at zero."""
    lower = "" if complete else "at least "
    parts = [f"{lower}{spend.tokens:,} tokens", cost_line(spend, complete=complete)]
    parts.append(f"{count(spend.requests, 'request')} to Claude")
    if spend.lost_requests:
        parts.append(f"{spend.lost_requests:,} of them lost (their tokens are a lower bound)")
    return ", ".join(parts)


def progress_line(status: RunStatus, seconds: float) -> str:
    """Say how far a run is, in one line."""
    parts = (f"step {status.step}", status.doing, f"{status.spend.tokens:,} tokens")
    return " · ".join(filter(None, (*parts, cost_line(status.spend), duration(seconds))))


def cost_line(spend: Tally, *, complete: bool = True) -> str:
    """Say what was spent in dollars; what is not known is said, never left at zero."""
    known = money(spend.cost_usd) if complete else f"at least {money(spend.cost_usd)}"
    if not spend.unpriced_requests:
        return known
    unknown = f"{count(spend.unpriced_requests, 'request')} of unknown price"
    return f"{known} and {unknown}" if spend.cost_usd else f"cost unknown ({unknown})"


def when(moment: datetime) -> str:
    """Write a moment, to the minute, in local time."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def duration(seconds: float) -> str:
    """Write how long something took."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
