"""Field problems of the ledger alone (section D), on a real server; D01 and D05 stand elsewhere."""

import json
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from ledger_story import FP, LONG_MS, STEP, Story, connected, new_story
from redis.asyncio import Redis
from redis.crc import key_slot

from onward.identity import run_key, shared_hash
from onward.ledger import INLINE_BYTES, Restored
from onward.local_services import RedisServer
from onward.local_services.data_dir import held_folder
from onward.local_services.ports import free_ports
from onward.local_services.redis import find_valkey
from onward.testing import wait_until

pytestmark = pytest.mark.timeout(60)

LONG_RESULT = json.dumps("x" * INLINE_BYTES)


# ---- D04: a crash leaves a claim that blocks


@pytest.mark.field("D04")
async def test_a_claim_blocks_no_longer_than_its_lease(redis_url: str) -> None:
    """Not for the lifetime of a result: who died is replaced when its lease is over."""
    async with new_story(redis_url) as story:
        dead = await story.claim("dead", lease_ms=300)
        assert (await story.claim("next")).verdict == "busy"
        assert await story.ttl_ms() == -1, "the lease is in the record, not an expiry of the run"
        taken_ms = await wait_until(partial(_claimed, story), 30, what="the end of the lease")
        assert taken_ms - dead.now_ms >= 300


async def _claimed(story: Story) -> int:
    """When the next attempt got the claim, ms of the server's clock; 0 while it waits."""
    claim = await story.claim("next")
    return claim.now_ms if claim.verdict == "claimed" else 0


@pytest.mark.field("D04")
async def test_only_the_owner_releases_a_claim_and_is_told_so(redis_url: str) -> None:
    """A tool that raised gives its claim back at once; a stranger's release is refused aloud."""
    async with new_story(redis_url) as story:
        await story.claim("a")
        assert (await story.release("b", maybe=False)).verdict == "fenced"
        assert (await story.claim("c")).verdict == "busy"
        assert (await story.release("a", maybe=False)).verdict == "open"
        assert (await story.claim("c")).verdict == "claimed"


# ---- D08: a key that expires before the run does


@pytest.mark.field("D08")
async def test_nothing_of_an_open_run_expires(redis_url: str) -> None:
    """A run may wait sixty days for a person: what it did is known all that time."""
    async with new_story(redis_url) as story:
        await story.claim("a")
        await story.complete("a", result=LONG_RESULT)
        assert [await story.redis.pttl(key) for key in await _keys(story)] == [-1, -1]


@pytest.mark.field("D08")
async def test_an_operation_after_the_end_keeps_everything(redis_url: str) -> None:
    """A reset of an ended run, or a late person, finds it whole; and so does whoever comes next."""
    async with new_story(redis_url) as story:
        await story.claim("a")
        await story.complete("a", result=LONG_RESULT)
        assert await story.ledger.end(LONG_MS)
        assert 0 < await story.ttl_ms() <= LONG_MS
        await story.resolve(1, "done")
        assert [await story.redis.pttl(key) for key in await _keys(story)] == [-1, -1]
        assert (await story.claim("b")).result == LONG_RESULT


@pytest.mark.field("D08")
async def test_a_record_that_expired_is_not_taken_for_never_sent(redis_url: str) -> None:
    """Even if all of it is gone when a late attempt comes: in doubt, not sent again."""
    async with new_story(redis_url) as story:
        await story.claim("a", "at_most_once")
        await story.complete("a", "at_most_once", result=LONG_RESULT)
        keys = await _keys(story)
        await story.ledger.end(1)
        await wait_until(partial(_gone, story, keys), 30, what="the expiry of all keys")
        late = await story.claim("late", "at_most_once")
        assert (late.verdict, late.why) == ("doubt", "records_lost")


async def _keys(story: Story) -> list[bytes]:
    return sorted(await story.redis.keys(f"{story.key}*"))


async def _gone(story: Story, keys: list[bytes]) -> bool:
    return not await story.redis.exists(*keys)


# ---- D13: a cluster refuses scripts over several slots


class ClusterServer(RedisServer):
    """A cluster of one node: it refuses what several nodes would refuse."""

    def _command(self) -> list[str]:
        # Its own choice, the port plus ten thousand, may be no port at all.
        bus = ("--cluster-port", str(free_ports(1)[0]))
        return [*super()._command(), "--cluster-enabled", "yes", *bus]


@pytest_asyncio.fixture(loop_scope="session")
async def cluster() -> AsyncGenerator[Redis]:
    """Run a cluster that has all slots."""
    with held_folder(None, "redis") as folder:
        server = ClusterServer(folder, find_valkey())
        await server.start()
        try:
            async with connected(server.url) as redis:
                admin: Any = redis
                await admin.execute_command("CLUSTER ADDSLOTSRANGE 0 16383")
                await wait_until(partial(_cluster_is_up, admin), 30, what="the cluster")
                yield redis
        finally:
            await server.stop()


async def _cluster_is_up(redis: Any) -> bool:
    return bool((await redis.execute_command("CLUSTER INFO"))["cluster_state"] == "ok")


@pytest.mark.field("D13")
async def test_a_cluster_takes_every_operation(cluster: Redis) -> None:
    """Record, turn, usage and long result of a run are in one slot, whatever the script touches."""
    story = Story(cluster)
    await story.begin()
    await story.claim("a", "read", turn="t")
    await story.renew("a")
    await story.ledger.usage(STEP, token="a", usage={"output_tokens": 1})
    await story.complete("a", "read", result=LONG_RESULT, turn="t", witness=story.witness)
    assert (await story.claim("b", "read", turn="t")).result == LONG_RESULT
    told = {f"13.{n}": Restored("done", FP, "keyed", result=LONG_RESULT) for n in range(3)}
    await story.ledger.restore(told, {"13": "turn"})
    await story.ledger.restore({"14.1": Restored("doubt", FP, "keyed", at_ms=1)}, {})
    settled = await story.ledger.resolve(
        "14.1", fp=FP, cls="keyed", at_ms=1, to="done", quarantine_ms=0, by="operator", result="1"
    )
    assert settled.verdict == "done"
    assert set((await story.ledger.snapshot()).records) == {STEP, *told, "14.1"}
    await story.ledger.end(LONG_MS)


@pytest.mark.field("D13")
@pytest.mark.parametrize("name", ["plain", "{tag}", "a}b", "}{", "ends in {", "\u00e9 {}"])
def test_all_keys_of_a_run_are_in_one_slot(name: str) -> None:
    """Also where a workflow id has braces of its own, which would move the hash tag."""
    _in_one_slot(f"onward:{{{run_key(name, 'run')}}}")
    _in_one_slot(shared_hash(name, "k:0"))


def _in_one_slot(hash_key: str) -> None:
    blob = f"{hash_key}:b:{'0' * 64}"
    assert key_slot(hash_key.encode()) == key_slot(blob.encode())
    tag = hash_key.removeprefix("onward:{").removesuffix("}")
    assert key_slot(hash_key.encode()) == key_slot(tag.encode()), "the tag is all of the run's name"
