"""The client of the ledger's Redis."""

import asyncio
import re
from typing import Any

from pages import ROOT

from onward.redis_server.connection import redis_client

_MAKES = re.compile(r"\bRedis(\.from_\w+)?\(|\bConnectionPool\(")


async def test_all_of_a_workers_activities_can_ask_at_once(redis_url: str) -> None:
    """A server that is slow for a moment makes them wait: none is told that Redis is away."""
    async with redis_client(redis_url) as client:
        redis: Any = client
        await redis.client_pause(200, all=False)
        written = await asyncio.gather(*(redis.set(f"many:{n}", "") for n in range(300)))
        assert all(written)


def test_every_client_is_made_in_one_place() -> None:
    """What a URL may say, and how long a server may be silent, is the same for all that ask it."""
    code = [*(ROOT / "onward").rglob("*.py"), *(ROOT / "activities").rglob("*.py")]
    makers = {file.name for file in code if _MAKES.search(file.read_text())}
    assert makers == {"connection.py", "sentinel.py"}
