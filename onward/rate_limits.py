"""The rate limits of Claude's API over all workers: who may send now, and who waits until when.

Each method is one call of `rate_limits.lua`, which holds the algorithm. Limits belong to an account
and a model, so that is what the keys name. Nothing here is needed for a run to be right: where
Redis loses it, or is away, the API's own 429 says what is too much.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from redis.asyncio import Redis

from onward.rates import LOW, Rates, Told, pool

_SCRIPT = files("onward").joinpath("rate_limits.lua").read_text(encoding="utf-8")
_LOOK_AGAIN_S = 5.0
"""How long a worker takes it for granted that no limit is known, or which ones."""

Why = Literal["requests", "input", "output", "refused"]


@dataclass(frozen=True)
class Turn:
    """Whether a request may be sent now."""

    wait_s: float = 0.0
    """By the server's clock; 0: now."""
    why: Why | None = None
    """What there is too little of; `refused`: the API has answered 429."""
    limit: int = 0
    """Of that, a minute."""
    reserved: bool = True
    """False: no limit is known, so there is nothing to settle."""


class RateLimits:
    """The limits of one account at Claude's API. One for each worker.

    `account` names it, see `onward.claude.account`; `caps` are limits by pool beyond which nothing
    is sent, whatever the API allows. Every method may raise redis' own errors.
    """

    def __init__(self, redis: Redis, account: str, caps: Mapping[str, Rates]) -> None:
        self._script = redis.register_script(_SCRIPT)
        self._account, self._caps = account, caps
        self._free_until: dict[str, float] = {}
        self._learned: dict[str, tuple[Rates, float]] = {}

    async def take(self, model: str, who: str, input_tokens: int) -> Turn:
        """Ask for the right to send; who must wait gets a time, and is served first at that time.

        `who` names the step: it finds its reservation by it. `input_tokens` is an estimate.
        """
        name = pool(model)
        if self._free_until.get(name, 0) > time.monotonic():
            return Turn(reserved=False)
        args = {"input": input_tokens} | _by_kind("cap_", self._caps.get(name, Rates()))
        verdict, *told = await self._call("take", [self._key("of", who), self._pool(model)], args)
        if verdict == "wait":
            return Turn(int(told[0]) / 1000, told[1], int(told[2]))
        if verdict == "free":
            self._free_until[name] = time.monotonic() + _LOOK_AGAIN_S
            self._learned.pop(name, None)  # Redis may have lost it
        return Turn(reserved=verdict == "go")

    async def settle(self, who: str, real: Rates) -> None:
        """Correct what was charged for a request that was sent by what it counted in truth."""
        await self._call("settle", [self._key("of", who)], _by_kind("", real))

    async def drop(self, who: str) -> None:
        """Give up a reservation that was not used, if there is one."""
        await self._call("drop", [self._key("of", who)])

    async def learn(self, model: str, told: Told) -> None:
        """Take over what a response told of the limits, unless it is known already."""
        name, now = pool(model), time.monotonic()
        known, until = self._learned.get(name, (None, 0.0))
        if not told.limits or (told.limits == known and until > now and not told.low):
            return
        args = _by_kind("limit_", told.limits) | _by_kind("remaining_", told.remaining)
        await self._call("learn", [self._pool(model)], args | {"low": LOW})
        self._learned[name] = told.limits, now + _LOOK_AGAIN_S
        self._free_until.pop(name, None)

    async def slow(self, model: str, seconds: float, *, guessed: bool) -> None:
        """Hold all requests for so long after a 429; `guessed`: longer with each in a row."""
        args = {"seconds": seconds, "guessed": int(guessed)}
        await self._call("slow", [self._pool(model)], args)
        self._free_until.pop(pool(model), None)

    def _pool(self, model: str) -> str:
        return self._key("pool", pool(model))

    def _key(self, kind: str, name: str) -> str:
        return f"onward:{{rate:{self._account}}}:{kind}:{name}"

    async def _call(
        self, op: str, keys: Sequence[str], args: Mapping[str, float] | None = None
    ) -> list[Any]:
        argv = [item for pair in (args or {}).items() for item in pair]
        reply = await self._script(keys=keys, args=[op, *argv])
        return [each.decode() if isinstance(each, bytes) else each for each in reply]


def _by_kind(prefix: str, rates: Rates) -> dict[str, float]:
    values = (rates.requests, rates.input_tokens, rates.output_tokens)
    named = zip(("requests", "input", "output"), values, strict=True)
    return {f"{prefix}{kind}": value for kind, value in named if value is not None}
