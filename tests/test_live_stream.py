"""The stream that watchers read: bounded, expiring, and never in a request's way (E04)."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from agent_runs import connected
from redis.asyncio import Redis

from activities import live
from activities.lease import Lease
from activities.live import MOST_BYTES, LiveReply
from onward.live.fragments import Fragment
from onward.live.happenings import Asked, Happening, Restarted, Wrote
from onward.live.stream import BEGINNING, LiveAttempt, LiveStream
from onward.live.telling import Telling
from onward.local_services import RedisServer
from onward.redis_server.connection import redis_client
from onward.testing import wait_until

pytestmark = pytest.mark.field("E04")

STEP = Asked("run", "1")


@pytest_asyncio.fixture(loop_scope="session")
async def redis(redis_url: str) -> AsyncGenerator[Redis]:
    """Connect to the test's Redis."""
    async with connected(redis_url) as client:
        yield client


@pytest.fixture
def stream(redis: Redis, request: pytest.FixtureRequest) -> LiveStream:
    """A stream of the test's own."""
    return LiveStream(redis, str(request.node.name), "first")


def attempt(name: str) -> LiveAttempt:
    return LiveAttempt(STEP.run_id, STEP.step, name)


def reply_on(stream: LiveStream, *, takeover_s: float = 30.0) -> LiveReply:
    """Publish a reply; use it in `async with`."""
    return LiveReply(stream, attempt("living"), Lease(takeover_s))


def said(text: str) -> dict[str, Any]:
    """Make an event of a reply's stream."""
    delta = {"type": "text_delta", "text": text}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def piece(text: str) -> list[Fragment]:
    return [Fragment(0, "text", text)]


async def told(stream: LiveStream) -> list[Happening]:
    """What somebody is told of the step who comes now."""
    telling = Telling()
    happened = [*telling.durable(STEP)]
    for entry in await stream.read(BEGINNING, wait_ms=1):
        happened += telling.live(entry)
    return happened


async def text(stream: LiveStream) -> str:
    found = await told(stream)
    return "".join(each.fragment.text for each in found if isinstance(each, Wrote))


async def entries(stream: LiveStream) -> int:
    return len(await stream.read(BEGINNING, wait_ms=1))


async def test_many_deltas_are_few_entries(redis: Redis, stream: LiveStream) -> None:
    """20,000 deltas: a handful of entries, together what was said, that vanish by themselves."""
    async with reply_on(stream) as reply:
        for _ in range(4):
            for _ in range(5_000):
                reply.hear(said("word "))
            await asyncio.sleep(live.BATCH_S)

        async def all_there() -> bool:
            return await text(stream) == "word " * 20_000

        await wait_until(all_there, 10, what="all that was said")
    assert await entries(stream) <= 6
    client: Any = redis
    assert 0 < await client.pttl(stream.key) <= 3_600_000
    assert await client.memory_usage(stream.key) < 200_000


@pytest.mark.parametrize("bound", ["bytes", "entries"])
async def test_a_reply_beyond_the_bounds_is_held_in_part(
    stream: LiveStream, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Past the bounds nothing more is written: Redis is there for the ledger."""
    monkeypatch.setattr(live, "BATCH_S", 0.001)
    if bound == "entries":
        monkeypatch.setattr(live, "MOST_ENTRIES", 1)
    async with reply_on(stream) as reply:
        reply.hear(said("x" * (MOST_BYTES - 10)))
        await wait_until(lambda: entries(stream), 10, what="the first entry")
        reply.hear(said("y" * 11))
        await wait_until(lambda: reply.over, 10, what="the end of what is published")
        reply.hear(said("z"))
    assert len(await text(stream)) == MOST_BYTES - 10


async def test_the_words_of_a_dead_attempt_are_ignored(stream: LiveStream) -> None:
    """An attempt that writes on after its successor began is not shown, then or later."""
    dead, living = attempt("dead"), attempt("living")
    await stream.begin(dead, piece("It was the "))
    early = Telling()
    seen = [*early.durable(STEP)]
    for entry in await stream.read(BEGINNING, wait_ms=1):
        seen += early.live(entry)
    await stream.begin(living, piece("The answer "))
    await stream.add(dead, piece("nightingale"))
    await stream.add(living, piece("is 42."))
    for entry in await stream.read(BEGINNING, wait_ms=1):
        seen += early.live(entry)
    assert await text(stream) == "The answer is 42."
    words = [each.fragment.text if isinstance(each, Wrote) else type(each) for each in seen]
    assert words == [Asked, "It was the ", Restarted, "The answer ", "is 42."]


async def test_an_attempt_that_lost_its_lease_is_silent(stream: LiveStream) -> None:
    """Paused for longer than its lease, it has a successor, whose stream it must not begin anew."""
    async with reply_on(stream, takeover_s=0.0) as reply:
        reply.hear(said("boo"))
        await wait_until(lambda: reply.over, 10, what="the end of what is published")
    assert await entries(stream) == 0


@pytest.mark.crash
async def test_a_redis_that_hangs_or_dies_delays_no_reply(own_redis: RedisServer) -> None:
    """The request does not wait for it, and hears of no error."""
    async with redis_client(own_redis.url) as redis:
        stream = LiveStream(redis, "hangs", "first")
        own_redis.pause()
        async with reply_on(stream) as reply:
            reply.hear(said("word"))
            await asyncio.sleep(live.BATCH_S + 0.1)
            ends = time.monotonic()
        assert time.monotonic() - ends < 0.5
        await own_redis.kill()
        async with reply_on(stream) as reply:
            reply.hear(said("word"))
            await wait_until(lambda: reply.over, 10, what="the end of what is published")
