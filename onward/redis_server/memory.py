"""How full the ledger's Redis is, and what an open run takes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from onward.run_hashes import RunHash, run_hashes

FULL = 0.8
"""Share of `maxmemory` above which new runs are refused: those that go on need the rest."""
_SAMPLE = 50
_KEYS_LOOKED_AT = 20_000
"""A server may hold millions of keys of others; a worker's start must not read them all."""


@dataclass(frozen=True)
class Memory:
    """Memory of a server, bytes."""

    used: int
    limit: int | None
    """`maxmemory`; None: not set, so the machine's memory is the limit."""

    @property
    def share(self) -> float | None:
        """Share of the limit in use, 0 to 1 and above; None without a limit."""
        return self.used / self.limit if self.limit else None

    @property
    def full(self) -> bool:
        """Too full for new runs."""
        return (self.share or 0) > FULL

    def __str__(self) -> str:
        if self.limit is None:
            return f"{size(self.used)} used, no limit set"
        return f"{size(self.used)} of {size(self.limit)} used ({self.share:.0%})"

    @classmethod
    def of(cls, info: Mapping[str, str]) -> "Memory":
        """Read it from a server's INFO."""
        return cls(int(info.get("used_memory", "0")), int(info.get("maxmemory", "0")) or None)


@dataclass(frozen=True)
class RunSizes:
    """What the runs of a sample take, their out-of-line results included."""

    runs: int
    mean_bytes: int

    def __str__(self) -> str:
        return f"{size(self.mean_bytes)} an open run (mean of {self.runs:,})"


async def run_sizes(redis: Redis) -> RunSizes | None:
    """Measure up to 50 open runs: hashes that no end has given an expiry.

    None where there is none, or where the server does not let us look.
    """
    found = list[int]()
    try:
        async for run in run_hashes(redis, most_keys=_KEYS_LOOKED_AT):
            if await cast("Any", redis).pttl(run.key) == -1:
                found.append(await run_bytes(redis, run))
            if len(found) == _SAMPLE:
                break
    except NoPermissionError:
        return None
    return RunSizes(len(found), sum(found) // len(found)) if found else None


async def run_bytes(redis: Redis, run: RunHash) -> int:
    """Measure one run: its hash and the results that live beside it."""
    client: Any = redis
    fields = [_text(field) for field in await client.hkeys(run.key)]
    keys = [run.key, *(f"{run.key}:{field}" for field in fields if field.startswith("b:"))]
    async with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.memory_usage(key, samples=0)
        return sum(taken or 0 for taken in await pipe.execute())


def size(count: int) -> str:
    """Write bytes for people: `512 B`, `1.5 kB`, `23.4 MB`."""
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:  # noqa: PLR2004
        amount, units = amount / 1000, units[1:]
    return f"{amount:.0f} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
