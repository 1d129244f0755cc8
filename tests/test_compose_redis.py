"""The compose file's Redis, by its own command line: strict, closed to others, and a ledger.

The whole story of the ledger is told once more, to that server, by the user that workers are.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
import pytest_asyncio
from compose_file import ComposeRedis, compose_redis
from ledger_story import connected
from pages import ROOT
from redis.exceptions import AuthenticationError
from test_ledger import *  # noqa: F403  (each test of it is run here again)

from onward.redis_server.connection import redis_client
from onward.redis_server.guarantee import guarantee
from onward.redis_server.permissions import missing_permissions, missing_to_watch


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncGenerator[ComposeRedis]:
    """Run Debian's Redis with the compose file's command."""
    async with compose_redis() as own:
        yield own


@pytest.fixture(scope="module")
def redis_url(server: ComposeRedis) -> str:
    """Lead the ledger's tests to that server."""
    return server.url


async def test_it_is_strict_and_has_a_limit(redis_url: str) -> None:
    """What it acknowledged is kept, nothing is evicted, and it says when it is full."""
    async with connected(redis_url) as redis:
        found = await guarantee(redis)
    assert str(found) == "strict: appendfsync always, noeviction, single primary"
    assert found.memory.limit == 512 * 1024**2


async def test_what_was_claimed_survives_its_death(server: ComposeRedis) -> None:
    """SIGKILL, and the file alone: what was acknowledged is there."""
    async with connected(server.url) as redis:
        await cast("Any", redis).set("onward:{kept}", "yes")
    await server.restart()
    async with connected(server.url) as redis:
        assert await cast("Any", redis).get("onward:{kept}") == b"yes"


@pytest.mark.parametrize("who", ["", ":s3cret@", "onward:wrong@"])
async def test_nobody_else_gets_in(server: ComposeRedis, who: str) -> None:
    """Neither without a name, nor as `default`, nor with another password."""
    async with redis_client(f"redis://{who}127.0.0.1:{server.ports[0]}/0") as redis:
        with pytest.raises(AuthenticationError):
            await cast("Any", redis).ping()


async def test_its_user_may_do_what_onward_needs_and_no_more(server: ComposeRedis) -> None:
    """The line of docs/operating.md, word for word, and it is enough."""
    page = (ROOT / "docs" / "operating.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("ACL SETUSER onward"))
    rights = line.split()[line.split().index("resetkeys") :]
    assert server.words[-len(rights) :] == rights
    async with connected(server.url) as redis:
        assert not await missing_permissions(redis)
        assert not await missing_to_watch(redis)


async def test_its_health_check_tells_whether_it_answers(server: ComposeRedis) -> None:
    """Workers start when it is healthy, so that must not be said of one that is not."""
    assert await asyncio.to_thread(server.healthy)
    await server.kill()
    try:
        assert not await asyncio.to_thread(server.healthy)
    finally:
        await server.start()
