"""A Redis that lost records is found out in the middle of a run, and no effect happens twice.

Each story: two calls are claimed and their effects made, the worker dies before it records either,
and the Redis that the next worker finds does not know of the claims.
"""

import asyncio
import shutil
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agent_runs import Bench, Run, app_of, connected, says, uses
from crash_runs import CrashBench
from ledger_story import Story

from onward import ToolContext, tool
from onward.console import Output
from onward.local_services import RedisServer, redis_server
from onward.redis_server.connection import redis_client
from onward.redis_server.guarantee import guarantee
from onward.restored import restored
from onward.testing import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

HELD = "delay_after_s=20,0"
"""The effect is made at once, and its first answer comes when nobody waits for it any more."""
NAMES = {"keyed": "refund", "at_most_once": "pay_out"}

Fault = Callable[[RedisServer], Awaitable[None]]


@pytest_asyncio.fixture(loop_scope="session")
async def server() -> AsyncGenerator[RedisServer]:
    """Run a server that this test may break."""
    async with redis_server(None) as own:
        yield own


@asynccontextmanager
async def told(url: str) -> AsyncGenerator[Any]:
    """Connect to a server, to tell it what to do."""
    async with connected(url) as redis:
        yield redis


async def interrupted(
    bench: CrashBench, url: str, *, before_the_claims: Callable[[], Awaitable[Any]] | None = None
) -> dict[str, tuple[Run, str]]:
    """Start a run of each class, and kill their worker between effect and record."""
    orders = {effect: f"{effect}-{uuid.uuid4().hex[:8]}" for effect in NAMES}
    env = {"FP": "f1:1:pause"} if before_the_claims else {}
    async with bench.worker(ONWARD_REDIS_URL=url, ONWARD_ALLOW_EVICTION="1", **env) as worker:
        runs = {
            effect: await bench.bench.start(uses((NAMES[effect], _held(order))), says())
            for effect, order in orders.items()
        }
        if before_the_claims:
            await worker.paused()
            await before_the_claims()
            worker.resume()
        made = [partial(bench.effects, order) for order in orders.values()]
        await wait_until(lambda: all(effects() for effects in made), 30, what="both effects")
        await worker.kill()
    return {effect: (runs[effect], order) for effect, order in orders.items()}


def _held(order: str) -> dict[str, str]:
    return {"order": order, "trouble": HELD}


async def judged(bench: CrashBench, url: str, story: dict[str, tuple[Run, str]]) -> None:
    """Let another worker end both runs: one effect each, and a doubt where there is no key."""
    async with bench.worker(ONWARD_REDIS_URL=url):
        results = {effect: await run.ended() for effect, (run, _) in story.items()}
    outcomes = {effect: (result.outcome, result.in_doubt) for effect, result in results.items()}
    assert outcomes == {"keyed": ("completed", ()), "at_most_once": ("completed", ("1.1",))}
    for effect, (_, order) in story.items():
        assert bench.effects(order) == 1, effect


def keys_of(bench: CrashBench, story: dict[str, tuple[Run, str]]) -> list[str]:
    """The two runs' hashes."""
    return [bench.bench.ledger(run).key for run, _ in story.values()]


# ---- records are lost


async def _flushed(server: RedisServer) -> None:
    async with told(server.url) as redis:
        await redis.flushall()


async def _emptied(server: RedisServer) -> None:
    await server.kill()
    shutil.rmtree(server.folder / "appendonlydir")
    await server.start()


async def _torn(server: RedisServer) -> None:
    """What `everysec` loses in a power cut: here all from the middle of the first claim on."""
    await server.kill()
    (log,) = (server.folder / "appendonlydir").glob("*.incr.aof")
    written = log.read_bytes()
    log.write_bytes(written[: written.index(b"s:1.1") + 3])
    await server.start()


async def _evicted(server: RedisServer) -> None:
    async with told(server.url) as redis:
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        keys = await redis.keys("onward:{run-*")
        used = (await redis.info("memory"))["used_memory"]
        await redis.config_set("maxmemory", used + 500_000)
        for number in range(2_000):
            await redis.set(f"junk-{number}", "x" * 10_000)
            if not await redis.exists(*keys):
                break
        assert not await redis.exists(*keys)
        await redis.config_set("maxmemory", 0)
        await redis.config_set("maxmemory-policy", "noeviction")


@pytest.mark.field("D09")
@pytest.mark.parametrize("fault", [_flushed, _emptied, _torn, _evicted])
async def test_lost_records_double_no_effect(
    crash_bench: CrashBench, server: RedisServer, fault: Fault
) -> None:
    """Flushed, restarted empty, its log torn in a command, evicted: one doubt, no repeat."""
    async with told(server.url) as redis:
        await redis.config_set("appendfsync", "everysec")
    story = await interrupted(crash_bench, server.url)
    await fault(server)
    async with told(server.url) as redis:
        for key in keys_of(crash_bench, story):
            assert not await redis.hexists(key, "s:1.1"), "the fault must lose the claim"
    await judged(crash_bench, server.url, story)


@pytest.mark.field("D11")
async def test_a_failover_to_a_replica_without_the_claim_doubles_no_effect(
    crash_bench: CrashBench, server: RedisServer
) -> None:
    """The promoted replica looks strict and has the runs' birth nonce: it is not trusted."""
    async with redis_server(None) as replica, told(server.url) as old, told(replica.url) as new:
        await old.config_set("repl-diskless-sync-delay", 0)
        await new.replicaof(*_host_and_port(server))
        await wait_until(partial(_in_step, new), 30, what="the replica's first sync")
        story = await interrupted(
            crash_bench, server.url, before_the_claims=partial(_promote, old, new)
        )
        await server.kill()
        for key in keys_of(crash_bench, story):
            assert await new.hexists(key, "_ds")
            assert not await new.hexists(key, "s:1.1")
        assert "a promoted replica" in str(await guarantee(new))
        await replica.restart()
        async with connected(replica.url) as restarted:
            assert (await guarantee(restarted)).strict, "nothing shows any more what it was"
        await judged(crash_bench, replica.url, story)


def _host_and_port(server: RedisServer) -> tuple[str, int]:
    return "127.0.0.1", server.ports[0]


async def _in_step(replica: Any) -> bool:
    return bool((await replica.info("replication"))["master_link_status"] == "up")


async def _promote(old: Any, new: Any) -> None:
    assert await old.wait(1, 10_000) == 1, "all but the claims must be there"
    await new.replicaof("NO", "ONE")


async def test_a_restored_backup_doubles_no_effect(
    crash_bench: CrashBench,
    server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A backup of before the claims, then `restored`: what the backup lacks is not "never sent"."""
    data, backup = server.folder / "appendonlydir", tmp_path / "backup"

    async def back_up() -> None:
        await asyncio.to_thread(shutil.copytree, data, backup)

    story = await interrupted(crash_bench, server.url, before_the_claims=back_up)
    await server.kill()
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    await server.start()
    monkeypatch.setenv("ONWARD_REDIS_URL", server.url)
    assert await restored(Output(), yes=True) == 0
    assert capsys.readouterr().out.startswith("2 runs will not trust the backup")
    await judged(crash_bench, server.url, story)


# ---- nothing is lost


@pytest.mark.parametrize(("fsync", "doubt"), [("always", ()), ("everysec", ("1.1",))])
async def test_only_a_strict_server_restarts_without_a_doubt(
    crash_bench: CrashBench, server: RedisServer, fsync: str, doubt: tuple[str, ...]
) -> None:
    """Worker and Redis die before a claim: strict is known to have lost nothing, lossy is not."""
    async with told(server.url) as redis:
        await redis.config_set("appendfsync", fsync)
    order = f"restart-{uuid.uuid4().hex[:8]}"
    async with crash_bench.worker(ONWARD_REDIS_URL=server.url, FP="f1:1:kill") as worker:
        run = await crash_bench.bench.start(uses(("pay_out", {"order": order})), says())
        await worker.killed()
    await server.kill()
    await server.start()
    async with told(server.url) as redis:
        await redis.config_set("appendfsync", fsync)
    async with crash_bench.worker(ONWARD_REDIS_URL=server.url):
        result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", doubt)
    assert crash_bench.effects(order) == (0 if doubt else 1)


@pytest.mark.field("D11")
async def test_a_server_that_is_demoted_in_place_holds_the_run_up_and_no_more(
    bench: Bench, server: RedisServer
) -> None:
    """REPLICAOF on the live node: nothing is fired, the reason is shown, and the run goes on."""
    acted: list[str] = []

    @tool
    async def act(ctx: ToolContext) -> str:
        """Act; the first time while the server is demoted."""
        acted.append(ctx.call)
        if ctx.call == "1.1":
            async with connected(server.url) as redis:
                await redis.replicaof("127.0.0.1", "1")  # pyright: ignore[reportUnknownMemberType]
        return "acted"

    bench.redis = redis_client(server.url)
    async with bench.redis, told(server.url) as redis, bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), uses(("act", {})), says())
        failing = await wait_until(run.failing_activity, 30, what="a failure that is shown")
        assert "read only replica" in failing
        assert acted == ["1.1"]
        await redis.replicaof("NO", "ONE")
        result = await run.ended()
    assert (result.outcome, result.in_doubt, acted) == ("completed", (), ["1.1", "2.1"])


@pytest.mark.field("D11")
async def test_no_connection_stays_with_a_demoted_primary(
    server: RedisServer, redis_url: str
) -> None:
    """The name leads to a new primary: an open connection to the old one is given up at once."""
    async with _name_of(server.url) as name, told(server.url) as old:
        story = Story(redis_client(name.url))
        await story.begin()
        name.leads_to = redis_url
        await old.replicaof("127.0.0.1", 1)
        assert (await story.begin()).nonce
        assert (await story.claim("a", "at_most_once")).verdict == "claimed"
        await story.redis.aclose()


class _Name:
    """An address of its own that leads new connections to whichever server it is told."""

    url: str

    def __init__(self, leads_to: str) -> None:
        self.leads_to = leads_to

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.leads_to.removeprefix("redis://").removesuffix("/0").split(":")
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))


@asynccontextmanager
async def _name_of(url: str) -> AsyncGenerator[_Name]:
    name = _Name(url)
    listening = await asyncio.start_server(name.forward, "127.0.0.1", 0)
    name.url = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
    async with listening:
        yield name


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@pytest.mark.field("D15")
async def test_an_effect_is_known_although_redis_is_away_for_long(
    bench: Bench, server: RedisServer
) -> None:
    """Redis dies in the middle of an effect: the result is history's, and no doubt comes of it.

    It stays away for longer than a lease; meanwhile nothing is fired and the reason is shown.
    """
    acted: list[str] = []

    @tool
    async def act(ctx: ToolContext) -> str:
        """Act, the first time without a Redis to record it."""
        acted.append(ctx.call)
        if ctx.call == "1.1":
            asyncio.run_coroutine_threadsafe(server.kill(), loop).result()
        return "acted"

    async def tried_for_long() -> bool:
        pending = (await run.handle.describe()).raw_description.pending_activities
        return any(activity.attempt > 3 for activity in pending)  # a second apart

    loop = asyncio.get_running_loop()
    bench.takeover_s, bench.redis = 1.5, redis_client(server.url)
    async with bench.redis, bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), uses(("act", {})), says())
        await wait_until(tried_for_long, 30, what="tries for longer than a lease")
        assert "Redis cannot be used" in await run.failing_activity()
        assert acted == ["1.1"]
        await server.start()
        result = await run.ended()
    assert (result.outcome, result.in_doubt, acted) == ("completed", (), ["1.1", "2.1"])
