"""Workers of one task queue know each other, and one that cannot work with the others says so."""

import asyncio
import json
import logging
import random
import uuid
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
import pytest_asyncio
from agent_runs import connected
from redis_users import PASSWORD, USER, may

from onward.errors import UsageError
from onward.local_services import RedisServer
from onward.redis_server.connection import redis_client
from onward.redis_server.permissions import KEYS, NEEDED
from onward.testing import wait_until
from onward.workers import company as companies
from onward.workers.company import Company
from onward.workers.presence import FORGOTTEN_S, Presence

pytestmark = pytest.mark.timeout(30)


def presence(**fields: Any) -> Presence:
    """Describe a worker that can work with another one of these."""
    who = Presence.of(
        "1@host", ["support"], app="shop:app", folder="/mnt/payloads", marker="a" * 32
    )
    return who.model_copy(update={"version": "0.6.0"} | fields)


@pytest_asyncio.fixture
async def redis(redis_url: str) -> AsyncGenerator[Any]:
    async with connected(redis_url) as client:
        yield client


@pytest.fixture
def company(redis: Any) -> Company:
    return Company(redis, "default", f"queue-{uuid.uuid4().hex}")


BAD = {
    "release": (presence(version="0.7.1"), "release 0.7.1, this one of 0.6.0.*ONWARD_TASK_QUEUE"),
    "app": (presence(agents=("billing",)), "agents 'billing', this one 'support'.*its own"),
    "folder": (
        presence(payload_folder="/srv/payloads", payload_marker="b" * 32),
        "'/srv/payloads', this one in '/mnt/payloads'.*two folders.*ONWARD_PAYLOAD_DIR",
    ),
}
"""What one worker may have that another cannot work with, and what is said of it."""


async def test_workers_see_who_lives(company: Company) -> None:
    """Each tells release, app, agents and folder, the oldest first, and is gone when it stops."""
    first, second = presence(identity="1@a"), presence(identity="2@b", version="0.6.3")
    async with company.present(first) as warnings:
        async with company.present(second):
            living = await company.living()
            assert [each.identity for each in living] == ["1@a", "2@b"]
            assert living[1].model_copy(update={"since_ms": 0, "settled": False}) == second
        await wait_until(lambda: _alone(company, first.id), 5)
    assert warnings == ()
    await wait_until(lambda: _alone(company), 5)


async def _alone(company: Company, *ids: str) -> bool:
    return [each.id for each in await company.living()] == [*ids]


async def test_others_are_no_company(redis: Any, company: Company) -> None:
    """Another task queue, or the same name in another namespace, is nobody's business."""
    other = Company(redis, "*", f"queue-{uuid.uuid4().hex}")
    async with company.present(presence()), other.present(presence(version="0.7.0")):
        assert [len(await each.living()) for each in (company, other)] == [1, 1]


@pytest.mark.parametrize("bad", BAD)
async def test_bad_company_is_refused(company: Company, bad: str) -> None:
    """Another minor release, another app, a folder that is not shared: said with what to do."""
    other, said = BAD[bad]
    async with company.present(presence()):
        with pytest.raises(UsageError, match=f"(?s)1@host of 'shop:app'.*{FORGOTTEN_S} s") as error:
            await _come(company, other, asyncio.Event())
        await wait_until(lambda: _has(company, 1), 5)
    # As the one that comes second sees it.
    async with company.present(other):
        with pytest.raises(UsageError, match=said):
            await _come(company, presence(), asyncio.Event())
    assert "cannot poll a task queue" in str(error.value)


async def _has(company: Company, count: int) -> bool:
    return len(await company.living()) == count


async def _come(company: Company, who: Presence, leave: asyncio.Event) -> None:
    async with company.present(who):
        await leave.wait()


class Late:
    """A Redis whose answers to one worker take random time, as its scheduling would have it."""

    def __init__(self, redis: Any, seed: int) -> None:
        self._redis, self._random = redis, random.Random(seed)  # noqa: S311

    def __getattr__(self, name: str) -> Any:
        async def late(*args: Any, **options: Any) -> Any:
            await asyncio.sleep(self._random.random() / 200)
            answer = await getattr(self._redis, name)(*args, **options)
            await asyncio.sleep(self._random.random() / 200)
            return answer

        return getattr(self._redis, name) if name == "scan_iter" else late


@pytest.mark.parametrize("seed", range(5))
async def test_of_those_that_come_at_once_one_stays(redis: Any, seed: int) -> None:
    """However their starts interleave: not two, and not none."""
    leave, queue = asyncio.Event(), f"queue-{uuid.uuid4().hex}"
    others = [presence(identity="first"), *(bad for bad, _ in BAD.values())]
    companies = [Company(Late(redis, seed + n), "default", queue) for n in range(len(others))]  # type: ignore[arg-type]
    pairs = zip(companies, others, strict=True)
    comes = [asyncio.create_task(_come(*pair, leave)) for pair in pairs]
    await wait_until(lambda: sum(come.done() for come in comes) == len(others) - 1, 5)
    await wait_until(lambda: _settled(Company(redis, "default", queue), 1), 5)
    leave.set()
    ended = await asyncio.gather(*comes, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ended) == ["NoneType", *["UsageError"] * 3]


async def _settled(company: Company, count: int) -> bool:
    return [each.settled for each in await company.living()] == [True] * count


async def test_a_clock_that_was_set_back_lets_no_two_stay(redis: Any, company: Company) -> None:
    """Who settled stays, though the newcomer came first by the clock."""
    late = presence(since_ms=2**52, settled=True)
    await redis.set(f"{company.prefix}{late.id}", late.model_dump_json(), px=5_000)
    with pytest.raises(UsageError, match=r"release 0\.6\.0"):
        await _come(company, presence(version="0.7.0"), asyncio.Event())


async def test_one_that_has_not_settled_is_waited_for(redis: Any, company: Company) -> None:
    """It came later by the clock, but may have looked before: the older one asks what it does."""
    key, other = f"{company.prefix}{0:032x}", presence(since_ms=2**52)
    await redis.set(key, other.model_dump_json(), px=5_000)
    coming = asyncio.create_task(_come(company, presence(version="0.7.0"), asyncio.Event()))
    await wait_until(lambda: _has(company, 2), 5)
    settled = other.model_copy(update={"settled": True})
    await redis.set(key, settled.model_dump_json(), px=5_000)
    with pytest.raises(UsageError, match=r"release 0\.6\.0"):
        await coming


async def test_a_killed_worker_is_forgotten(redis: Any, company: Company) -> None:
    """It gave its word for ten seconds and never took it back; every key has an end."""
    async with company.present(presence()):
        (key,) = [key async for key in redis.scan_iter(match=f"{company.prefix}*")]
        assert 0 < await redis.pttl(key) <= FORGOTTEN_S * 1000
        await redis.pexpire(key, 1)
        await wait_until(lambda: _has(company, 0), 5)
        async with company.present(presence(version="0.7.0")):
            pass


async def test_a_living_worker_is_not_forgotten(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes and stays where Redis is full, says once that it cannot tell, and then tells."""
    monkeypatch.setattr(companies, "_BEAT_S", 0.01)
    caplog.set_level(logging.WARNING)
    async with connected(own_redis.url) as redis:
        company = Company(redis, "default", "queue")
        await cast("Any", redis).config_set("maxmemory", "1")
        async with company.present(presence()):
            await wait_until(lambda: "maxmemory" in caplog.text, 5)
            await cast("Any", redis).config_set("maxmemory", "0")
            await wait_until(lambda: _settled(company, 1), 5)
    assert caplog.text.count("cannot tell Redis that this worker lives") == 1


async def test_agents_that_only_one_has_are_a_warning(company: Company) -> None:
    """A deploy adds and removes agents: nothing is refused, and it is said."""
    async with (
        company.present(presence()),
        company.present(presence(agents=("support", "billing"))) as warnings,
    ):
        assert [("'billing'" in each, "deploy" in each) for each in warnings] == [(True, True)]


async def test_another_app_with_the_same_agents_is_a_warning(company: Company) -> None:
    """It may be a module that was renamed, or a second app that begins the first one's runs."""
    async with (
        company.present(presence()),
        company.present(presence(app="desk:app")) as (warning,),
    ):
        assert "1@host of 'shop:app' polls this task queue too, and it has another app" in warning
        assert "'desk:app'" in warning
        assert "ONWARD_TASK_QUEUE" in warning


async def test_who_was_forgotten_is_told_who_came_meanwhile(
    redis: Any, company: Company, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that was paused for longer than it counts as living wakes beside one that came."""
    monkeypatch.setattr(companies, "_BEAT_S", 0.01)
    me = presence()
    async with company.present(me):
        other = presence(version="0.7.0", settled=True, identity="2@new")
        await redis.set(f"{company.prefix}{other.id}", other.model_dump_json(), px=5_000)
        await redis.unlink(f"{company.prefix}{me.id}")
        await wait_until(lambda: "2@new of 'shop:app' came" in caplog.text, 5)
    assert caplog.text.count("cannot work together") == 1


async def test_what_a_newer_release_tells_is_understood(redis: Any, company: Company) -> None:
    """Fields that this one does not know are ignored: its release is what counts."""
    told = {"id": "new", "identity": "1@new", "version": "9.0.0", "settled": True, "mood": "good"}
    await redis.set(f"{company.prefix}{0:032x}", json.dumps(told), px=5_000)
    with pytest.raises(UsageError, match=r"release 9\.0\.0"):
        await _come(company, presence(), asyncio.Event())


async def test_the_documented_user_may_do_it(redis: Any, redis_local: RedisServer) -> None:
    """What `docs/operating.md` grants is enough to come, to look and to leave."""
    await may(redis, [f"+{command}" for command in NEEDED], keys=[KEYS])
    own = redis_client(redis_local.url.replace("//", f"//{USER}:{PASSWORD}@"))
    company = Company(own, "default", f"queue-{uuid.uuid4().hex}")
    async with own:
        async with company.present(presence()):
            assert await _has(company, 1)
        await wait_until(lambda: _has(company, 0), 5)
