"""The ledger and the server under it: what a restart, a full memory, a setting does to it."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from ledger_story import FP, OTHER_FP, STEP, Story, connected, new_story
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import OutOfMemoryError

from onward.local_services import RedisServer, redis_server
from onward.redis_server.guarantee import guarantee

pytestmark = pytest.mark.timeout(60)


@pytest_asyncio.fixture(loop_scope="session")
async def server(tmp_path: Path) -> AsyncGenerator[RedisServer]:
    """Run a server of its own, to be set up badly."""
    async with redis_server(tmp_path) as own:
        yield own


async def _set(story: Story, name: str, value: str) -> None:
    await story.redis.config_set(name, value)


# ---- which guarantee it can keep


async def test_the_embedded_server_is_strict(redis_url: str) -> None:
    """What `onward-worker --local` starts keeps everything that it acknowledged."""
    async with connected(redis_url) as redis:
        found = await guarantee(redis)
    assert str(found) == "strict: appendfsync always, noeviction, single primary"
    assert (found.strict, found.evicts, found.used) == (True, False, None)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("appendonly", "no", "appendonly no"),
        ("appendfsync", "everysec", "appendfsync everysec"),
        ("no-appendfsync-on-rewrite", "yes", "no-appendfsync-on-rewrite yes"),
        ("maxmemory-policy", "allkeys-lru", "maxmemory-policy allkeys-lru, which may drop records"),
    ],
)
async def test_a_server_that_may_forget_is_lossy_and_says_why(
    server: RedisServer, name: str, value: str, reason: str
) -> None:
    """The label is checked, never believed, with a client that decodes and one that does not."""
    for decode in (True, False):
        async with new_story(server.url, decode_responses=decode) as story:
            await _set(story, name, value)
            found = await guarantee(story.redis)
            assert str(found) == f"lossy: {reason}"
            assert found.evicts == (name == "maxmemory-policy")


async def test_a_server_that_hides_its_settings_is_lossy(server: RedisServer) -> None:
    """Managed servers often refuse CONFIG: that is no error, and no proof either."""
    async with new_story(server.url) as story:
        await story.redis.acl_setuser(
            "app", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-config"]
        )
        async with connected(server.url, username="app", password="pw") as redis:
            found = await guarantee(redis)
    assert str(found) == "lossy: its settings cannot be read (CONFIG is refused)"


async def test_a_server_with_a_replica_is_lossy(server: RedisServer, redis_url: str) -> None:
    """A replica may be promoted without the last writes; and a replica is no place to write."""
    host, port = redis_url.removeprefix("redis://").removesuffix("/0").split(":")
    async with new_story(server.url) as story:
        await story.redis.replicaof(host, port)
        found = await guarantee(story.redis)
    assert "a replica (role slave)" in found.reasons


async def test_it_says_how_full_it_is(server: RedisServer) -> None:
    """So that new runs can be refused before records cannot be written."""
    async with new_story(server.url) as story:
        await _set(story, "maxmemory", "100mb")
        found = await guarantee(story.redis)
        assert found.used is not None
        assert 0 < found.used < 0.5


# ---- faults


@pytest.mark.crash
async def test_claims_survive_the_death_of_a_strict_server(server: RedisServer) -> None:
    """SIGKILL and restart: every claim is there, the witness is trusted, nobody fires again."""
    async with new_story(server.url, retry=None) as story:
        await story.claim("a", "at_most_once")
        await server.kill()
        with pytest.raises(NotConnected):
            await story.claim("b", "at_most_once")
        await server.start()
        assert (await story.claim("b", "at_most_once")).verdict == "busy"
        assert (await story.claim("c", "at_most_once", fp=OTHER_FP)).verdict == "mismatch"
        after = await story.ledger.begin(None, reset_lineage=False)
        assert after.nonce == story.witness.nonce
        assert after.inc != story.witness.inc, "a restart shows in the incarnation"


async def test_a_full_server_refuses_new_claims_but_takes_the_truth(server: RedisServer) -> None:
    """Nothing is sent that could not be recorded; what was sent is recorded all the same."""
    async with new_story(server.url) as story:
        await story.claim("a", "at_most_once")
        await _set(story, "maxmemory", "1")
        with pytest.raises(OutOfMemoryError):
            await story.ledger.claim(
                "12.2",
                fp=FP,
                cls="keyed",
                token="b",
                lease_ms=1,
                witness=story.witness,
                lineage=False,
            )
        assert set((await story.ledger.snapshot()).records) == {STEP}
        long = json.dumps("x" * 70_000)
        assert (await story.renew("a")).verdict == "claimed"
        assert (await story.complete("a", "at_most_once", result=long)).verdict == "done"
        assert (await story.claim("b", "at_most_once")).result == long


async def test_every_key_of_an_ended_run_has_an_expiry(server: RedisServer) -> None:
    """Nothing is left behind for ever."""
    async with new_story(server.url) as story:
        for turn in ("one", "two"):
            await story.claim(turn, "read", fp=turn, turn=turn)
            await story.ledger.usage(STEP, token=turn, usage={"output_tokens": 1})
            long = json.dumps(turn * 70_000)
            await story.ledger.complete(turn, fp=turn, cls="read", token=turn, result=long)
        await story.ledger.end(60_000)
        keys: list[Any] = await story.redis.keys("*")
        assert len(keys) == 3
        assert [key for key in keys if await story.redis.pttl(key) < 0] == []
