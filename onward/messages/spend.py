"""What requests to Claude cost."""

from decimal import Decimal
from typing import Any

from pydantic import Field

from onward.messages.base import Wire


class Attempt(Wire):
    """One request sent for a step: kept in the ledger and in heartbeats while it runs."""

    model: str
    usage: dict[str, Any] = Field(default_factory=dict[str, Any])
    """As the stream reported it last; empty: sent, and nothing is known yet."""
    whole: bool = False
    """The reply arrived to its end."""
    sent: bool = True
    """False: it turned out that nothing reached the API."""
    refused: bool = False
    """The API answered with an error instead of a reply, which costs nothing."""


class Spend(Wire):
    """Tokens and money, lost attempts included. Sums with `+`."""

    requests: int = 0
    """Requests sent to Claude."""
    lost_requests: int = 0
    """Of those, the ones whose reply never arrived whole; their tokens are a lower bound."""
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    """Of everything whose price is known."""
    unpriced_requests: int = 0
    """Requests whose price is not known: `cost_usd` leaves them out."""

    def __add__(self, other: "Spend") -> "Spend":
        names = type(self).model_fields
        return Spend(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def tokens(self) -> int:
        """All tokens, of every kind."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
            + self.output_tokens
        )


class GiveUp(Wire):
    """Details of an error with which `call_claude` stops a step for good and knows its spend."""

    spend: Spend = Spend()
