"""Every key that Onward writes is of a known kind, and the page for operators lists the kinds."""

import uuid
from pathlib import Path

import pytest
from agent_runs import connected
from key_leaks import left_behind

from onward.identity import run_key, shared_hash
from onward.live.stream import LiveStream
from onward.local_services import RedisServer
from onward.pausing.switch import Switch
from onward.redis_server.keys import KINDS, is_left_behind, kind_of
from onward.redis_server.permissions import KEYS
from onward.workers.company import Company
from onward.workers.janitor import LOCK

PAGE = Path(__file__).parent.parent / "docs" / "operating.md"
FIRST, SHA = str(uuid.uuid4()), "0" * 64
RUN = f"onward:{{{run_key('a run/with {signs}: and more', FIRST)}}}"


@pytest.mark.asyncio(loop_scope="session")
async def test_each_module_s_own_keys_are_of_its_kind(own_redis: RedisServer) -> None:
    """The list is no second opinion: what the modules call their keys is what it knows."""
    async with connected(own_redis.url) as redis:
        made = {
            RUN: "run",
            f"{RUN}:b:{SHA}": "result",
            LiveStream(redis, "a: run", FIRST).key: "live reply",
            shared_hash("default", "k:1"): "business key",
            f"{shared_hash('default', 'k:1')}:b:{SHA}": "business key",
            Switch(redis, "a:name.space").key: "paused agents",
            "onward:{rate:0a1b}:pool:claude-sonnet-4": "rate limit",
            f"onward:{{rate:0a1b}}:of:{FIRST} 12.1": "reservation",
            f"{Company(redis, 'a:b', 'a queue').prefix}{uuid.uuid4().hex}": "worker",
            LOCK: "janitor",
        }
    assert {key: kind.name for key in made if (kind := kind_of(key))} == made
    for key in made:
        assert sum(bool(kind.pattern.fullmatch(key)) for kind in KINDS) == 1


def test_only_what_may_stay_stays() -> None:
    """An expiry that is forgotten is found, and so is a key that nobody has listed."""
    assert not is_left_behind(RUN, expires=False)
    assert is_left_behind(f"{RUN}:live", expires=False)
    assert not is_left_behind(f"{RUN}:live", expires=True)
    assert is_left_behind("onward:{a new kind}", expires=True)
    assert all(kind.like.startswith(KEYS.rstrip("*")) for kind in KINDS)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_suite_s_own_look_finds_what_leaks(own_redis: RedisServer) -> None:
    """A look at the end of all tests that cannot fail would show nothing."""
    async with connected(own_redis.url) as redis:
        await redis.set(f"{RUN}:live", "")
        await redis.set("onward:{stranger}", "", ex=60)
        await redis.set(LOCK, "1", ex=60)
        await redis.set("another's key", "")
        assert await left_behind(redis) == [f"{RUN}:live", "onward:{stranger}"]


def test_the_page_for_operators_lists_every_kind() -> None:
    """Who looks into Redis can tell what each key is, and when it goes."""
    rows = [f"| {k.name} | `{k.like}` | {k.expires} | {k.stays} |" for k in KINDS]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")
