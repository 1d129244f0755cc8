"""The rate limits of Claude's API over all workers: who may send now, and who waits until when.

Each method is one call of `rate_limits.lua`, which holds the algorithm. Limits belong to an account
and a pool of models (`onward.rates.pool`), so that is what the keys name. Nothing here is needed
for a run to be right: where Redis loses it, or is away, the API's own 429 says what is too much.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from redis.asyncio import Redis

from onward.rates import LOW, Rates, Told

_SCRIPT = files("onward").joinpath("rate_limits.lua").read_text(encoding="utf-8")
_LOOK_AGAIN_S = 5.0
"""How long a worker takes it for granted that no limit is known, or which ones."""

Why = Literal["requests", "input", "output"]


@dataclass(frozen=True)
class Permit:
    """Whether a request may be sent now."""

    wait_s: float = 0.0
    """By the server's clock; 0: now."""
    why: Why | None = None
    """What there is too little of; None: the API has answered 429."""
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

    async def take(self, pool: str, who: str, input_tokens: int) -> Permit:
        """Ask for the right to send; who must wait gets a time, and is served first at that time.

        `who` names the step: it finds its reservation by it. `input_tokens` is an estimate.
        """
        if self._free_until.get(pool, 0) > time.monotonic():
            return Permit(reserved=False)
        args = {"input": input_tokens} | _by_kind("cap_", self._caps.get(pool, Rates()))
        verdict, *told = await self._call("take", [self._key("of", who), self._pool(pool)], args)
        if verdict == "wait":
            return Permit(int(told[0]) / 1000, told[1] or None, int(told[2]))
        if verdict == "free":
            self._free_until[pool] = time.monotonic() + _LOOK_AGAIN_S
            self._learned.pop(pool, None)  # Redis may have lost it
        return Permit(reserved=verdict == "go")

    async def settle(self, who: str, real: Rates) -> None:
        """Correct what was charged for a request that was sent by what it counted in truth."""
        await self._call("settle", [self._key("of", who)], _by_kind("", real))

    async def drop(self, who: str) -> None:
        """Give up a reservation that was not used, if there is one."""
        await self._call("drop", [self._key("of", who)])

    async def learn(self, pool: str, told: Told) -> None:
        """Take over what a response told of the limits, unless it is known already."""
        now = time.monotonic()
        known, until = self._learned.get(pool, (None, 0.0))
        if not told.limits or (told.limits == known and until > now and not told.low):
            return
        args = _by_kind("limit_", told.limits) | _by_kind("remaining_", told.remaining)
        await self._call("learn", [self._pool(pool)], args | {"low": LOW})
        self._learned[pool] = told.limits, now + _LOOK_AGAIN_S
        self._free_until.pop(pool, None)

    async def slow(self, pool: str, seconds: float, *, guessed: bool) -> None:
        """Hold all requests for so long after a 429; `guessed`: longer with each in a row."""
        args = {"seconds": seconds, "guessed": int(guessed)}
        await self._call("slow", [self._pool(pool)], args)
        self._free_until.pop(pool, None)

    def _pool(self, pool: str) -> str:
        return self._key("pool", pool)

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
