"""The hashes that a Redis holds records in, by the names of the ledger's keys."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from redis.asyncio import Redis

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KEY = re.compile(rf"onward:\{{(?P<workflow>[^:}}]+):(?P<first>{_UUID})\}}")
_SHARED = re.compile(r"onward:\{=[0-9a-f]{64}\}")
_ROUND = 1000


@dataclass(frozen=True)
class RunHash:
    """The hash of one run: `onward:{R}`, see `onward.identity.run_key`."""

    key: str
    workflow_id: str
    first_run_id: str


def parse_key(key: str) -> RunHash | None:
    """Tell whose hash a key is; None where it is not that of a run."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    return RunHash(key, unquote(found["workflow"], errors="surrogatepass"), found["first"])


async def run_hashes(redis: Redis, *, most_keys: int | None = None) -> AsyncIterator[RunHash]:
    """Find the hashes of all runs; with `most_keys`, among about so many keys of the server.

    One that comes or goes meanwhile may be missed. Raises redis.exceptions.RedisError.
    """
    async for key in _found(redis, "onward:{*}", most_keys=most_keys):
        run = parse_key(key)
        if run is not None:
            yield run


async def shared_hashes(redis: Redis) -> AsyncIterator[str]:
    """Find the hashes of business keys that all runs recognise, see `onward.identity.shared_hash`.

    One that comes or goes meanwhile may be missed. Raises redis.exceptions.RedisError.
    """
    async for key in _found(redis, "onward:{=*}"):
        if _SHARED.fullmatch(key):
            yield key


async def _found(redis: Redis, match: str, *, most_keys: int | None = None) -> AsyncIterator[str]:
    cursor, seen, done = 0, 0, False
    while not done:
        cursor, keys = await cast("Any", redis).scan(cursor, match=match, count=_ROUND)
        for key in keys:
            yield key if isinstance(key, str) else key.decode()
        seen += _ROUND
        done = cursor == 0 or (most_keys is not None and seen >= most_keys)
