"""Two at one step (field problem D01), a lease that really ends, a reply that is really lost."""

import asyncio
import multiprocessing
import uuid
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from ledger_story import FP, LONG_MS, Story, connected, new_story
from redis.asyncio import Redis
from redis.exceptions import TimeoutError as NoReply

from onward.ledger import Ledger
from onward.local_services import redis_server
from onward.messages import EffectClass, RunRef, Witness

ROUNDS, DEADLINE_S = 500, 60.0
CLASSES: Sequence[EffectClass] = ("at_most_once", "keyed")


@pytest.mark.field("D01")
@pytest.mark.timeout(120)
async def test_two_processes_race_for_a_step_and_one_effect_happens(redis_url: str) -> None:
    """500 rounds from one barrier: one effect a round, and both are told the same result."""
    async with new_story(redis_url) as story:
        spawn = multiprocessing.get_context("spawn")
        barrier = spawn.Barrier(2)
        args = (redis_url, story.run.model_dump(), story.witness.model_dump(), barrier)
        racers = [spawn.Process(target=_racer, args=(name, *args)) for name in ("one", "two")]
        for racer in racers:
            racer.start()
        for racer in racers:
            await asyncio.to_thread(racer.join, DEADLINE_S)
            if racer.is_alive():
                racer.kill()
        assert [racer.exitcode for racer in racers] == [0, 0]
        await _audit(story)


async def _audit(story: Story) -> None:
    effects = await story.redis.hgetall(f"{story.key}:effects")
    told = {name: await story.redis.lrange(f"{story.key}:{name}", 0, -1) for name in ("one", "two")}
    await story.redis.delete(*[f"{story.key}:{name}" for name in ("effects", "one", "two")])
    assert effects == {str(n).encode(): b"1" for n in range(ROUNDS)}
    assert len(told["one"]) == ROUNDS
    assert told["one"] == told["two"]
    assert {result.split(b":")[1] for result in told["one"]} == {b'one"', b'two"'}, "no real race"


def _racer(
    name: str, url: str, run: dict[str, Any], witness: dict[str, Any], barrier: Barrier
) -> None:
    asyncio.run(_race(name, url, RunRef(**run), Witness(**witness), barrier))


async def _race(name: str, url: str, run: RunRef, witness: Witness, barrier: Barrier) -> None:
    async with connected(url) as redis:
        ledger = Ledger(redis, run, strict=True)
        for number in range(ROUNDS):
            barrier.wait(DEADLINE_S)
            result = await _step(ledger, redis, name, number, witness)
            await _any(redis).rpush(f"{ledger.key}:{name}", result)


async def _step(ledger: Ledger, redis: Redis, name: str, number: int, witness: Witness) -> str:
    """Claim and fire, or wait for the other's result."""
    asked = (f"{number}.1", FP, CLASSES[number % len(CLASSES)], uuid.uuid4().hex)
    step, fp, cls, token = asked
    while True:
        claim = await ledger.claim(
            step, fp=fp, cls=cls, token=token, lease_ms=LONG_MS, witness=witness, lineage=False
        )
        if claim.verdict == "claimed":
            await _any(redis).hincrby(f"{ledger.key}:effects", number, 1)
            result = f'"{number}:{name}"'
            return (await ledger.complete(step, fp=fp, cls=cls, token=token, result=result)).result
        if claim.verdict == "done":
            return claim.result
        assert claim.verdict == "busy"
        await asyncio.sleep(0.001)


async def test_a_step_goes_on_when_the_lease_is_over_and_not_before(redis_url: str) -> None:
    """A killed worker's step waits its lease out by the server's clock, however often asked."""
    async with new_story(redis_url) as story:
        first = await story.claim("dead", lease_ms=300)
        taken = await story.claim("next")
        while taken.verdict == "busy":
            assert taken.wait_ms <= first.now_ms + 300 - taken.now_ms
            await asyncio.sleep(taken.wait_ms / 1000)
            taken = await story.claim("next")
        assert (taken.verdict, taken.may_have_sent) == ("claimed", True)
        assert taken.now_ms >= first.now_ms + 300


async def test_a_lease_that_is_renewed_does_not_end(redis_url: str) -> None:
    """A tool that takes longer than its lease keeps its claim."""
    async with new_story(redis_url) as story:
        first = await story.claim("alive", lease_ms=500)
        other = await story.claim("next")
        while other.now_ms < first.now_ms + 1_500:
            assert (await story.renew("alive")).verdict == "claimed"
            other = await story.claim("next")
            assert other.verdict == "busy"
            await asyncio.sleep(0.02)


@pytest.mark.crash
async def test_a_claim_whose_reply_is_lost_is_still_the_attempts_own(tmp_path: Path) -> None:
    """The server did it and nobody heard: asked again with the token, the claim is the same."""
    async with (
        redis_server(tmp_path) as server,
        new_story(server.url, retry=None, socket_timeout=0.3) as story,
    ):
        server.pause()
        with pytest.raises(NoReply):
            await story.claim("a", "at_most_once")
        server.resume()
        again = await story.claim("a", "at_most_once")
        assert (again.verdict, again.requests, again.may_have_sent) == ("claimed", 1, False)
        assert (await story.claim("b", "at_most_once")).verdict == "busy"


def _any(redis: Redis) -> Any:
    return redis  # redis-py's own types leave these commands half unknown
