"""A worker that cannot work says at once what it found, what it expected and what to do."""

import asyncio
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_runs import connected
from redis_users import may
from temporalio.client import Client

from onward.local_services import RedisServer, TemporalServer, redis_server
from onward.local_services.data_dir import held_folder
from onward.local_services.redis import find_valkey
from onward.own_code import own
from onward.testing import wait_until
from onward.testing.warm import WarmWorker
from onward.workers.janitor import LOCK
from onward.workers.pollers import polled

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60)]

NOWHERE = "127.0.0.1:1"
NO_SCHEMA = """
from onward import *
class Thing: pass
@tool
def act(thing: Thing): "Act."
app = App(Agent("a", model="m", tools=[act]))
"""
RETIRED = "from onward import *\napp = App(Agent('a', model='claude-opus-4-1'))"


async def said_by(folder: Path, status: int, *args: str, **env: str) -> str:
    """Run a worker that ends by itself; returns what it printed."""
    (folder / "apps").mkdir(exist_ok=True)
    worker = await WarmWorker.start(env, args=args, log=folder / "worker.log", cwd=folder / "apps")
    assert await worker.wait(30) == status, worker.output()
    assert "Traceback" not in worker.output()
    return worker.output()


async def test_no_temporal(tmp_path: Path, redis_url: str) -> None:
    """Exit 3, with the address and the setting."""
    said = await said_by(tmp_path, 3, TEMPORAL_ADDRESS=NOWHERE, ONWARD_REDIS_URL=redis_url)
    assert NOWHERE in said
    assert "TEMPORAL_ADDRESS" in said


async def test_no_redis(tmp_path: Path, temporal: TemporalServer) -> None:
    """Exit 3, with the address, without its password, and the setting."""
    url = f"redis://:secret@{NOWHERE}/0"
    said = await said_by(tmp_path, 3, TEMPORAL_ADDRESS=temporal.address, ONWARD_REDIS_URL=url)
    assert NOWHERE in said
    assert "ONWARD_REDIS_URL" in said
    assert "secret" not in said


async def test_no_redis_url(tmp_path: Path, temporal: TemporalServer) -> None:
    """Exit 2 for what is no Redis URL at all."""
    said = await said_by(
        tmp_path, 2, TEMPORAL_ADDRESS=temporal.address, ONWARD_REDIS_URL="http://x"
    )
    assert "ONWARD_REDIS_URL" in said


@pytest.mark.parametrize(
    ("source", "spec", "told"),
    [
        ("import nothing_of_that_name", "broken:app", "nothing_of_that_name"),
        ("app = 5", "broken:app", "App"),
        ("1/0", "broken:app", "ZeroDivisionError"),
        ("import onward\nonward.Limits(max_steps=0)", "broken:app", "max_steps is 0"),
        (RETIRED, "broken:app", "retired on 2026-08-05"),
        ("", "absent:app", "absent"),
        ("", "no colon", "module:attribute"),
        (
            NO_SCHEMA,
            "broken:app",
            "'act'",
        ),
    ],
)
async def test_an_app_that_cannot_be_used(
    tmp_path: Path, source: str, spec: str, told: str
) -> None:
    """Exit 2, with the module and the cause, before anything is connected."""
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "broken.py").write_text(source)
    said = await said_by(tmp_path, 2, ONWARD_APP=spec, TEMPORAL_ADDRESS=NOWHERE)
    assert told in said


def _deaf(arguments: list[str]) -> int:
    """Run a worker whose log takes nothing, as on a full disk."""
    code = 1
    with suppress(OSError), Path("/dev/full").open("w") as full, redirect_stdout(full):
        code = int(own("worker").main(arguments))
    return code


async def test_a_log_that_takes_nothing_ends_no_worker(
    tmp_path: Path, where: dict[str, str], client: Client, queue: str
) -> None:
    """It works, and stops when it is told to."""
    worker = WarmWorker.fork(_deaf, [[]], env=where, log=tmp_path / "worker.log")
    await wait_until(lambda: polled(client, queue), 30, what="the worker being listed")
    assert await worker.stop() == 0


async def test_an_app_that_is_typed_as_an_argument(tmp_path: Path) -> None:
    """As other servers take theirs: where it belongs is in the help, which the error names."""
    worker = await WarmWorker.start({}, args=["refunds:app"], log=tmp_path / "worker.log")
    assert await worker.wait(20) == 2
    assert "'refunds:app'" in worker.output()
    assert "`onward-worker --help` shows what is possible" in worker.output()


async def test_a_setting_that_cannot_be(tmp_path: Path) -> None:
    """Exit 2, with the variable's name and its value."""
    said = await said_by(tmp_path, 2, ONWARD_TAKEOVER_S="soon")
    assert "ONWARD_TAKEOVER_S" in said
    assert "soon" in said


async def test_the_start_line_says_which_guarantee(
    tmp_path: Path, temporal: TemporalServer
) -> None:
    """A lossy Redis is used, and the worker says that it is lossy, why, and how full it is.

    So it says of a missing key and of a model that is to be retired, and the janitor works beside
    it.
    """
    env = {"TEMPORAL_ADDRESS": temporal.address, "ONWARD_TASK_QUEUE": "test-lossy"}
    env["ONWARD_APP"] = "dated:app"
    source = "from onward import Agent, App\napp = App(Agent('a', model='claude-opus-4-5'))\n"
    (tmp_path / "dated.py").write_text(source)
    async with redis_server(None) as server, connected(server.url) as redis:
        await redis.config_set("appendfsync", "everysec")  # pyright: ignore[reportUnknownMemberType]
        policy = "maxmemory-policy"
        await redis.config_set(policy, "allkeys-lru")  # pyright: ignore[reportUnknownMemberType]
        url = {"ONWARD_REDIS_URL": server.url}
        log = tmp_path / "worker.log"
        worker = await WarmWorker.start(env | url, args=["--allow-eviction"], log=log)
        await worker.logged("warning: this Redis", 30)
        await wait_until(partial(redis.exists, LOCK), 30, what="the janitor's first sweep")
        said = worker.output()
        assert await worker.stop() == 0
    assert "lossy: appendfsync everysec" in said
    assert "MB used, no limit set" in said
    assert "ANTHROPIC_API_KEY" in said
    assert "'claude-opus-4-5' is deprecated: it is to be retired on 2027-01-22" in said
    assert "noeviction" in said
    assert "janitor" not in worker.output(), "it is ended without a word"


@pytest.mark.field("D09")
async def test_a_redis_that_may_drop_records_is_refused(
    tmp_path: Path, temporal: TemporalServer
) -> None:
    """Without noeviction: exit 2, with the policy found and both ways out."""
    async with redis_server(None) as server, connected(server.url) as redis:
        policy = "maxmemory-policy"
        await redis.config_set(policy, "volatile-ttl")  # pyright: ignore[reportUnknownMemberType]
        said = await said_by(
            tmp_path, 2, TEMPORAL_ADDRESS=temporal.address, ONWARD_REDIS_URL=server.url
        )
    assert "volatile-ttl" in said
    assert "noeviction" in said
    assert "--allow-eviction" in said


async def test_a_redis_user_that_may_too_little_is_refused(
    tmp_path: Path, temporal: TemporalServer
) -> None:
    """Exit 2, with what is missing and the command that grants it; nothing is left in Redis."""
    async with redis_server(None) as server, connected(server.url) as redis:
        await may(redis, ["+@all", "-hset", "-script|load"], keys=["onward:*"])
        url = server.url.replace("//", "//app:pw@")
        said = await said_by(tmp_path, 2, TEMPORAL_ADDRESS=temporal.address, ONWARD_REDIS_URL=url)
        await wait_until(partial(_is_empty, redis), 10, what="the scratch key's expiry")
    assert "the Redis user 'app' may not run script|load, hset" in said
    assert "ACL SETUSER app ~onward:* +script|load +hset" in said
    assert "pw" not in said


async def _is_empty(redis: Any) -> bool:
    return bool(await redis.dbsize() == 0)


@pytest.mark.field("D15")
async def test_a_wrong_password(tmp_path: Path, temporal: TemporalServer, redis_url: str) -> None:
    """Exit 3, with what is wrong and where to correct it."""
    url = redis_url.replace("//", "//app:secret@")
    said = await said_by(tmp_path, 3, TEMPORAL_ADDRESS=temporal.address, ONWARD_REDIS_URL=url)
    assert "Correct user and password in ONWARD_REDIS_URL" in said
    assert "secret" not in said


class SlowlyLoading(RedisServer):
    """A server that takes a tenth of a second for each key in its file, until told otherwise."""

    def _command(self) -> list[str]:
        slow = ("--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024")
        return [*super()._command(), *slow]


async def _with_much_data(server: RedisServer) -> None:
    async with connected(server.url) as redis:
        commands: Any = redis
        await commands.mset({f"key-{number}": "x" * 10_000 for number in range(600)})
        await commands.bgrewriteaof()  # only of a snapshot does it read key by key
        snapshot = (server.folder / "appendonlydir").glob

        async def in_use() -> bool:  # the file is there a moment before the manifest names it
            rewriting = (await commands.info("persistence"))["aof_rewrite_in_progress"]
            return not rewriting and [*snapshot("*.2.base.rdb")] != []

        await wait_until(in_use, 30, what="the snapshot")


@pytest.mark.field("D15")
async def test_a_redis_that_reads_its_data_is_waited_for(
    tmp_path: Path, temporal: TemporalServer
) -> None:
    """A server that loads refuses everything: the worker says so once, and begins when it can."""
    env = {"TEMPORAL_ADDRESS": temporal.address, "ONWARD_TASK_QUEUE": "test-loading"}
    with held_folder(None, "redis") as folder:
        server = SlowlyLoading(folder, find_valkey())
        await server.start()
        try:
            await _with_much_data(server)
            await server.kill()
            starting = asyncio.create_task(server.start())
            url = {"ONWARD_REDIS_URL": server.url}
            worker = await WarmWorker.start(env | url, log=tmp_path / "worker.log")
            try:
                await worker.logged("Redis is loading its data", 30)
                async with connected(server.url) as redis:
                    delay = "key-load-delay"
                    await redis.config_set(delay, 0)  # pyright: ignore[reportUnknownMemberType]
                await starting
                await worker.ready()
            finally:
                assert await worker.stop() == 0
        finally:
            await server.stop()
    assert worker.output().count("is loading") == 1


async def test_a_second_worker_of_a_folder_is_told_who_has_it(
    tmp_path: Path, redis_local: RedisServer
) -> None:
    """`--local` twice in one folder: the second is refused and names the first's process."""
    del redis_local  # the binaries are there
    data = {"ONWARD_DATA_DIR": str(tmp_path / "data")}
    first = await WarmWorker.start(data, args=["--local"], log=tmp_path / "first.log")
    try:
        await first.ready()
        said = await said_by(tmp_path, 2, "--local", **data)
        assert str(first.pid) in said
        second = await WarmWorker.start(data, log=tmp_path / "second.log")
        await second.ready()  # without --local it joins the first
        assert await second.stop() == 0
    finally:
        await first.stop()
