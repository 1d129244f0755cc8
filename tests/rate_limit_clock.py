"""The script of the rate limits, with a clock that the test sets."""

import uuid
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis

_SCRIPT = files("onward").joinpath("rate_limits.lua").read_text(encoding="utf-8")
_TIME = "redis.call('TIME')"
_AT = "{ math.floor(given.now_s), given.now_s % 1 * 1000000 }"
assert _SCRIPT.count(_TIME) == 1


class Pool:
    """A pool of its own, at a time of its own."""

    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis
        self._script = redis.register_script(_SCRIPT.replace(_TIME, _AT))
        self._tag = f"onward:{{rate:test-{uuid.uuid4().hex[:12]}}}"
        self.now_s = 1_800_000_000.0

    async def take(self, who: str, tokens: float, **caps: float) -> float:
        """Ask for a turn; returns the seconds to wait, or -1 where no limit is known."""
        verdict, *told = await self._call(
            "take", [f"{self._tag}:of:{who}", self._hash], input=tokens, **caps
        )
        return {b"go": 0.0, b"free": -1.0}.get(verdict) or (int(told[0]) / 1000 if told else 0.0)

    async def settle(self, who: str, requests: float, tokens: float, output: float) -> None:
        """Correct what was charged."""
        real = {"requests": requests, "input": tokens, "output": output}
        await self._call("settle", [f"{self._tag}:of:{who}"], **real)

    async def drop(self, who: str) -> None:
        """Give a reservation up."""
        await self._call("drop", [f"{self._tag}:of:{who}"])

    async def learn(self, **told: float) -> None:
        """Take over limits."""
        await self._call("learn", [self._hash], low=0.1, **told)

    async def slow(self, seconds: float, *, guessed: bool = False) -> None:
        """Hold all requests."""
        await self._call("slow", [self._hash], seconds=seconds, guessed=int(guessed))

    async def keys(self) -> list[tuple[str, float]]:
        """Return all keys with the seconds they live."""
        found = [key.decode() async for key in self._redis.scan_iter(f"{self._tag}*")]
        return [(key, await self._redis.pttl(key) / 1000) for key in found]

    async def wipe(self) -> None:
        """Lose everything, as a Redis without its disk does."""
        await self._redis.delete(*[key for key, _ in await self.keys()])

    @property
    def _hash(self) -> str:
        return f"{self._tag}:pool:test"

    async def _call(self, op: str, keys: list[str], **given: float) -> list[Any]:
        args = [item for pair in (given | {"now_s": self.now_s}).items() for item in pair]
        reply: list[Any] = await self._script(keys=keys, args=[op, *args])
        return reply
