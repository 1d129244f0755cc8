"""How long Claude's reply may be: looked at before every request, so at most one passes a limit."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from onward import json_text
from onward.caching import Lifetime, lifetime_of
from onward.claude_errors import LEAST_REPLY_TOKENS
from onward.claude_request import Request
from onward.context_window import turn_tokens
from onward.messages import ClaudeInput, Opening, Outcome, Rest, Spend
from onward.models.table import capacity
from onward.pricing import output_for
from onward.transcript import Turn

from .failures import stop


@dataclass(frozen=True)
class Budget:
    """What an attempt at a step may spend."""

    given: ClaudeInput
    opening: Opening
    turn: Turn
    spent: Spend
    """By the step's earlier attempts, lost ones included."""

    def affordable(self, request: Request) -> Request:
        """Return the request with no more `max_tokens` than the run can still pay for.

        Raises the error that stops the step where a limit is met.
        """
        request = self._with_room(request)
        if self.given.rest is None:
            return request
        self._refuse_late(self.given.rest)
        bounds = self._bounds(self.given.rest, request.model)
        tightest = min(bounds, key=lambda bound: bound.tokens, default=None)
        if tightest is None or tightest.tokens >= request.max_tokens:
            return request
        self._refuse_short(tightest, request.max_tokens)
        return replace(request.but(max_tokens=tightest.tokens), lowered=tightest.outcome)

    def _with_room(self, request: Request) -> Request:
        """Allow more tokens where a shorter reply was cut off, as far as the model can."""
        wanted, known = self.given.max_tokens, capacity(request.model)
        wanted = min(wanted, known.max_output) if known else wanted
        return request.but(max_tokens=wanted) if wanted > request.max_tokens else request

    def _refuse_late(self, rest: Rest) -> None:
        if rest.until_ms is not None and time.time() * 1000 >= rest.until_ms:
            raise stop("limit", "the run's time is up", self.spent, "limit_time")

    def _refuse_short(self, bound: "_Bound", wanted: int) -> None:
        # The API refuses a reply that has no more room than its thinking may take.
        needed = min(wanted, max(LEAST_REPLY_TOKENS, _settings(self.opening.frozen).thinking + 1))
        if bound.tokens < needed:
            least = f"a prompt of about {self._prompt.tokens:,} tokens and a reply of {needed:,}"
            text = f"{bound.left} may still be spent: too little for {least}"
            raise stop("limit", text, self.spent, bound.outcome)

    def _bounds(self, rest: Rest, model: str) -> Iterator["_Bound"]:
        spent = self.spent
        if rest.cost_usd is not None:
            dollars = max(rest.cost_usd - spent.cost_usd, Decimal(0))
            lifetime = lifetime_of(self.opening.cache, long_cache=self.given.long_cache)
            usage = self._prompt.usage(lifetime) | _settings(self.opening.frozen).priced
            bought = output_for(dollars, model, usage)
            if bought is not None:
                yield _Bound(bought, "limit_cost", f"${dollars:.4f}")
        if rest.tokens is not None:
            left = max(rest.tokens - spent.tokens, 0)
            yield _Bound(left - self._prompt.tokens, "limit_tokens", f"{left:,} tokens")
        if rest.output_tokens is not None:
            left = max(rest.output_tokens - spent.output_tokens, 0)
            yield _Bound(left, "limit_tokens", f"{left:,} output tokens")

    @property
    def _prompt(self) -> "_Prompt":
        new, known = turn_tokens(self.turn.content), self.given.context
        if known is None:
            return _Prompt(0, new + turn_tokens(self.opening.frozen))
        return _Prompt(known.tokens, new)


@dataclass(frozen=True)
class _Bound:
    """Tokens that one limit leaves for a reply."""

    tokens: int
    outcome: Outcome
    left: str
    """What is left below the limit, in words."""


@dataclass(frozen=True)
class _Prompt:
    """Tokens of a request before its reply, estimated."""

    known: int
    """Of what Claude read and wrote before."""
    new: int

    @property
    def tokens(self) -> int:
        return self.known + self.new

    def usage(self, lifetime: Lifetime | None) -> dict[str, Any]:
        """Count them as the API does: what is known is read from the cache, what is new written."""
        if lifetime is None:
            return {"input_tokens": self.tokens}
        return {
            "cache_read_input_tokens": self.known,
            "cache_creation_input_tokens": self.new,
            "cache_creation": {f"ephemeral_{lifetime}_input_tokens": self.new},
        }


@dataclass(frozen=True)
class _Settings:
    """What price and length of a reply depend on besides the model."""

    priced: dict[str, Any]
    thinking: int
    """Tokens that Claude may think with, where that is bounded; 0: it is not."""


@lru_cache(maxsize=32)
def _settings(frozen: str) -> _Settings:
    # Kept: a frozen request may hold many tools, and a run asks at every step.
    body: dict[str, Any] = json_text.values(frozen)
    thinking: dict[str, Any] = body.get("thinking") or {}
    priced: dict[str, Any] = {n: body[n] for n in ("speed", "inference_geo") if n in body}
    return _Settings(priced, int(thinking.get("budget_tokens") or 0))
