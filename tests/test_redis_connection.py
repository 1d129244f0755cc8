"""The client of the ledger's Redis."""

import asyncio
from typing import Any

from onward.redis_connection import redis_client


async def test_all_of_a_workers_activities_can_ask_at_once(redis_url: str) -> None:
    """A server that is slow for a moment makes them wait: none is told that Redis is away."""
    async with redis_client(redis_url) as client:
        redis: Any = client
        await redis.client_pause(200, all=False)
        written = await asyncio.gather(*(redis.set(f"onward:{{many}}:{n}", "") for n in range(300)))
        assert all(written)
