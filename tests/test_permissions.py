"""What the Redis user may do is tried before anything depends on it; losing it loses nothing."""

import re
from collections.abc import AsyncGenerator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agent_runs import Bench, app_of, connected, says, uses
from redis.asyncio import Redis
from redis_kinds import KINDS, server_of
from redis_users import PASSWORD, USER, may

from onward import ToolContext, tool
from onward.redis_server.connection import loaded, redis_client
from onward.redis_server.guarantee import guarantee
from onward.redis_server.memory import run_sizes
from onward.redis_server.permissions import HELPFUL, KEYS, NEEDED, missing_permissions
from onward.restored import rotate
from onward.testing import wait_until
from onward.workers.janitor import Janitor

pytestmark = pytest.mark.timeout(120)

ALL_NEEDED = [f"+{command}" for command in NEEDED]


@pytest_asyncio.fixture(params=KINDS, scope="module", loop_scope="session")
async def admin(request: pytest.FixtureRequest) -> AsyncGenerator[Redis]:
    """Connect, with all permissions, to a server of each kind."""
    async with server_of(request.param) as server, connected(server.url) as redis:
        yield redis


def as_user(admin: Redis, database: int = 0) -> Redis:
    """Connect as the user that `may` made."""
    port = admin.connection_pool.connection_kwargs["port"]
    return redis_client(f"redis://{USER}:{PASSWORD}@127.0.0.1:{port}/{database}")


async def test_the_documented_permissions_are_enough(admin: Redis, bench: Bench) -> None:
    """With exactly these a whole run works, the janitor too, and the server's guarantee is read."""

    @tool
    async def act() -> str:
        """Act, with a result that is kept out of line."""
        return "x" * 90_000

    await may(admin, [*ALL_NEEDED, *(f"+{command}" for command in HELPFUL)], keys=[KEYS])
    async with as_user(admin) as redis:
        assert not await missing_permissions(redis)
        assert (await guarantee(redis)).strict
        bench.redis = redis
        run = await bench.run(app_of(act), uses(("act", {})), says())
        assert run.result is not None
        assert run.result.outcome == "completed"
        janitor = Janitor(redis, bench.temporal, every_s=60)
        assert await janitor.takes_turn()
        assert (await janitor.sweep())["closed"] >= 1
        assert await rotate(redis) >= 1


@pytest.mark.parametrize("command", NEEDED)
async def test_each_missing_command_is_named(admin: Redis, command: str) -> None:
    """Whatever is missing is found by trying, and so is the line that grants it."""
    await may(admin, [each for each in ALL_NEEDED if each != f"+{command}"], keys=[KEYS])
    async with as_user(admin) as redis:
        await loaded(redis, pytest.fail)
        missing = await missing_permissions(redis)
        assert missing.commands == (command,)
        assert missing.grant == f"ACL SETUSER {USER} ~{KEYS} +{command}"
        await _granted(admin, missing.grant)
        assert not await missing_permissions(redis)


async def test_another_database_needs_select(admin: Redis) -> None:
    """A connection that is refused at its beginning is not taken for all commands refused."""
    await may(admin, ALL_NEEDED, keys=[KEYS])
    async with as_user(admin, database=1) as redis:
        missing = await missing_permissions(redis)
        assert (missing.commands, missing.keys) == (("select",), False)


async def test_the_page_for_operators_grants_what_is_needed(admin: Redis) -> None:
    """The ACL line in docs/operating.md is complete, and no wider."""
    page = Path(__file__).parent.parent / "docs" / "operating.md"
    line = next(line for line in page.read_text().splitlines() if line.startswith("ACL SETUSER"))
    assert re.findall(r"\+(\S+)", line) == [*NEEDED, *HELPFUL]
    await _granted(admin, line)
    async with redis_client(_url(admin).replace("//", "//onward:PASSWORD@")) as redis:
        assert not await missing_permissions(redis)


@pytest.mark.parametrize("keys", ["other:*", f"%R~{KEYS}"])
async def test_missing_keys_are_named(admin: Redis, keys: str) -> None:
    """Other keys, or ours for reading only."""
    await may(admin, ALL_NEEDED, keys=[])
    await _granted(admin, f"ACL SETUSER {USER} {keys if keys[0] == '%' else '~' + keys}")
    async with as_user(admin) as redis:
        missing = await missing_permissions(redis)
        assert (missing.commands, missing.keys) == ((), True)
        assert f"read and write the keys {KEYS}" in str(missing)
        await _granted(admin, missing.grant)
        assert not await missing_permissions(redis)


async def _granted(admin: Redis, line: str) -> None:
    commands: Any = admin
    await commands.execute_command(*line.split())


async def test_what_only_helps_is_not_needed(admin: Redis) -> None:
    """Without CONFIG GET the server counts as lossy, without MEMORY USAGE sizes are not told."""
    await may(admin, ALL_NEEDED, keys=[KEYS])
    async with as_user(admin) as redis:
        assert "CONFIG is refused" in str(await guarantee(redis))
        commands: Any = redis
        await commands.hset("onward:{a:00000000-0000-0000-0000-000000000000}", "_ds", "n")
        assert await run_sizes(redis) is None


def test_the_script_runs_no_other_command() -> None:
    """Every command of the ledger's script is one that is tried at start."""
    script = files("onward").joinpath("ledger.lua").read_text(encoding="utf-8")
    used = {name.lower() for name in re.findall(r"redis\.call\('(\w+)'", script)}
    assert used
    assert used <= set(NEEDED)


async def test_losing_a_permission_in_mid_run_loses_nothing(admin: Redis, bench: Bench) -> None:
    """The run waits, `status` can say why, nothing is fired without a claim, and it goes on."""
    acted: list[str] = []

    @tool
    async def act(ctx: ToolContext) -> str:
        """Act; the first time, an administrator takes a permission away."""
        acted.append(ctx.call)
        if ctx.call == "1.1":
            async with connected(_url(admin)) as redis:
                await may(redis, [*ALL_NEEDED, "-hset"], keys=[KEYS])
        return "acted"

    await may(admin, ALL_NEEDED, keys=[KEYS])
    async with as_user(admin) as redis:
        bench.redis = redis
        async with bench.worker(app_of(act)):
            run = await bench.start(uses(("act", {})), uses(("act", {})), says())
            failing = await wait_until(run.failing_activity, 30, what="a failure that is shown")
            assert "Redis cannot be used" in failing
            assert acted == ["1.1"]
            await may(admin, ALL_NEEDED, keys=[KEYS])
            result = await run.ended()
    assert (result.outcome, result.in_doubt, acted) == ("completed", (), ["1.1", "2.1"])


def _url(admin: Redis) -> str:
    return f"redis://127.0.0.1:{admin.connection_pool.connection_kwargs['port']}/0"
