"""The client of the ledger's Redis."""

import asyncio
import re
from typing import Any

import pytest
from agent_runs import connected
from pages import ROOT

from onward.errors import ConnectError
from onward.local_services import RedisServer
from onward.redis_server.connection import redis_client, redis_errors

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


async def _refusal(url: str) -> str:
    """Try to write; returns what a person is told."""
    with pytest.raises(ConnectError) as caught:
        async with redis_client(url) as redis, redis_errors(url):
            await redis.set("key", "")
    return str(caught.value)


async def test_a_server_that_answers_and_refuses_is_not_called_away(own_redis: RedisServer) -> None:
    """What it says is told, with what to do about that: another address would not help."""
    refusals = {
        ("min-replicas-to-write", "1", "0"): "NOREPLICAS .* Look at its settings and its log",
        ("maxmemory", "1", "0"): "'maxmemory'. Raise its maxmemory",
    }
    async with connected(own_redis.url) as redis:
        admin: Any = redis
        for (setting, bad, good), said in refusals.items():
            await admin.config_set(setting, bad)
            told = await _refusal(own_redis.url)
            assert re.search(f"cannot use the Redis at 'redis://.*{said}", told), told
            await admin.config_set(setting, good)
        await admin.replicaof("127.0.0.1", "1")
        assert "Name its primary in ONWARD_REDIS_URL" in await _refusal(own_redis.url)
    named = own_redis.url.replace("redis://", "redis+sentinel://").replace("/0", "/ledger/0")
    assert "named as a Sentinel is a Redis server" in await _refusal(named)


async def test_a_silent_server_is_not_taken_for_one_with_tls(own_redis: RedisServer) -> None:
    """It is stopped or busy, and `rediss://` would not help."""
    async with connected(own_redis.url) as client:
        redis: Any = client
        await redis.client_pause(60_000)
        told = await _refusal(f"{own_redis.url}?socket_timeout=0.1")
    assert "no answer in time (Timeout reading from" in told
    assert "stopped or busy" in told


async def test_what_is_no_redis_is_told(unused_tcp_port: int) -> None:
    """A wrong port may lead to anything, a web server for instance."""

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    async with await asyncio.start_server(answer, "127.0.0.1", unused_tcp_port):
        told = await _refusal(f"redis://127.0.0.1:{unused_tcp_port}/0")
    assert "something answers there, but it is not Redis" in told
