"""The embedded Redis: it loses nothing that the ledger was told is kept, not even when killed."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from onward.local_services import RedisServer, redis_server


async def redis_do(server: RedisServer, *command: str) -> object:
    client: Any = Redis.from_url(server.url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
    async with client:
        return await client.execute_command(*command)


async def test_redis_keeps_what_the_ledger_needs(redis_local: RedisServer) -> None:
    """The settings that make the ledger `strict`."""
    wanted = {
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "maxmemory-policy": "noeviction",
        "save": "",
    }
    found = await redis_do(redis_local, "CONFIG", "GET", *wanted)
    assert found == wanted


@pytest.mark.crash
async def test_redis_keeps_every_acknowledged_write_over_a_kill() -> None:
    """SIGKILL and restart: same port, nothing that was acknowledged is lost."""
    async with redis_server(None) as server:
        for n in range(50):
            await redis_do(server, "SET", f"k{n}", str(n))
        url = server.url
        await server.restart()
        assert server.url == url
        assert await redis_do(server, "DBSIZE") == 50


@pytest.mark.crash
async def test_a_paused_server_goes_on(redis_local: RedisServer) -> None:
    """Tests can let a server stand still; what was sent meanwhile is answered afterwards."""
    redis_local.pause()
    asked = asyncio.ensure_future(redis_do(redis_local, "PING"))
    done, _ = await asyncio.wait([asked], timeout=0.2)
    redis_local.resume()
    assert not done
    assert await asked is True
