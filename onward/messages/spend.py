"""What requests to Claude cost."""

from collections.abc import Callable
from decimal import Decimal
from operator import add, sub
from typing import Any, Self, cast

from pydantic import Field

from onward.messages.base import Outcome, Terse, Wire


class Attempt(Terse):
    """One request sent for a step: kept in the ledger and in heartbeats while it runs."""

    model: str
    usage: dict[str, Any] = Field(default_factory=dict[str, Any])
    """As the stream reported it last; empty: sent, and nothing is known yet."""
    whole: bool = False
    """The reply arrived to its end."""
    sent: bool = True
    """False: it turned out that nothing reached the API."""
    refused: bool = False
    """Something else than a reply came back, which costs nothing."""
    misconfigured: bool = False
    """It never reached Claude's API, for the worker's settings lead elsewhere."""
    max_tokens: int = 0
    """The most that the API then said it allows; 0: it did not say."""
    unstreamable: bool = False
    """Its stream could not be kept without loss: the next request asks for the reply in one piece.
    """
    people_s: float = 0.0
    """Seconds that were then waited until somebody pays, or raises a limit at the API."""
    unbilled: bool = False
    """Claude declined before it wrote anything: `usage` has tokens, and they cost nothing."""


class Tally(Wire):
    """Tokens and money of some requests. Adds and subtracts field by field."""

    requests: int = 0
    input_tokens: int = 0
    """Neither read from the cache nor written to it."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    """For five minutes or for an hour."""
    cache_write_1h_tokens: int = 0
    """Of those, the ones written for an hour."""
    output_tokens: int = 0
    thinking_tokens: int = 0
    """Of those, the ones that Claude thought with."""
    web_searches: int = 0
    web_fetches: int = 0
    cost_usd: Decimal = Decimal(0)
    """Of everything whose price is known."""
    unpriced_requests: int = 0
    """Requests whose price is not known: `cost_usd` leaves them out."""

    def __add__(self, other: Self) -> Self:
        return self._by_field(add, other)

    def __sub__(self, other: Self) -> Self:
        return self._by_field(sub, other)

    def _by_field(self, operation: "_Operation", other: Self) -> Self:
        names = type(self).model_fields
        mine, others = ({name: getattr(each, name) for name in names} for each in (self, other))
        return type(self)(**{n: _combined(operation, mine[n], others[n]) for n in names})

    @property
    def tokens(self) -> int:
        """All tokens, of every kind."""
        prompt = self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
        return prompt + self.output_tokens


class Spend(Tally):
    """Tokens and money of a run or a step, lost attempts included. Adds and subtracts."""

    lost_requests: int = 0
    """Requests whose reply never arrived whole; their tokens are a lower bound."""
    lost: Tally = Tally()
    """What those cost at least; the totals include it."""
    saved: Tally = Tally()
    """Of replies that were found in the ledger instead of being paid again; in no total."""
    models: dict[str, Tally] = Field(default_factory=dict[str, Tally])
    """The totals by model, as the API names it. A request that several serve counts with each."""

    @property
    def total(self) -> Tally:
        """What is in all requests together."""
        return Tally(**{name: getattr(self, name) for name in Tally.model_fields})

    @property
    def answered(self) -> Tally:
        """Of a step: what the one request cost whose reply arrived."""
        return (self.total - self.lost).model_copy(update={"requests": 1})


_Operation = Callable[[Any, Any], Any]


def _combined(operation: _Operation, one: Any, other: Any) -> Any:
    if not isinstance(one, dict):
        return operation(one, other)
    mine, others = cast("dict[str, Tally]", one), cast("dict[str, Tally]", other)
    none = Tally()
    return {n: operation(mine.get(n, none), others.get(n, none)) for n in (*mine, *others)}


class Rest(Terse):
    """What a run may still spend when a step begins; None: more than a step can."""

    cost_usd: Decimal | None = None
    tokens: int | None = None
    output_tokens: int | None = None
    until_ms: int | None = None
    """Unix ms after which no request is sent."""


class GiveUp(Wire):
    """Details of an error with which `call_claude` stops a step for good and knows its spend."""

    spend: Spend = Spend()
    limit: Outcome | None = None
    """Of an error of type `limit`: which one was met."""
