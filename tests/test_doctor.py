"""`doctor` looks at everything that Onward stands on; `start` refuses what will not find room."""

import asyncio
import json
import shutil
import uuid
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from agent_double import Cli, double_worker
from agent_runs import connected
from redis_users import may
from temporalio.client import Client
from test_janitor import Scene

from onward.agents import load_app
from onward.connection import connect
from onward.console import Output
from onward.doctor.command import doctor
from onward.doctor.orphans import list_orphans, removal
from onward.errors import ConnectError, UsageError
from onward.ledger import INLINE_BYTES
from onward.local_services import RedisServer, TemporalServer, redis_server
from onward.redis_server.memory import size
from onward.redis_server.permissions import NEEDED
from onward.restored import restored
from onward.search_attributes import register
from onward.settings import Settings
from onward.workers.company import Company
from onward.workers.payload_folder import mark
from onward.workers.presence import Presence

pytestmark = pytest.mark.timeout(60)

NOWHERE = "redis://127.0.0.1:1/0"


@pytest_asyncio.fixture(loop_scope="session")
async def server(
    temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> AsyncGenerator[RedisServer]:
    """Run a Redis of the test's own, configured with the test's Temporal."""
    async with redis_server(None) as own:
        monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
        monkeypatch.setenv("ONWARD_REDIS_URL", own.url)
        monkeypatch.setenv("ONWARD_TASK_QUEUE", f"doctor-{uuid.uuid4().hex}")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "never-sent")
        monkeypatch.chdir(tmp_path)
        yield own


@pytest_asyncio.fixture(loop_scope="session")
async def redis(server: RedisServer) -> AsyncGenerator[Any]:
    """Connect to it with all permissions."""
    async with connected(server.url) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def client(server: RedisServer) -> Client:
    """Connect to the test's Temporal, as `server` configured it."""
    del server
    found = await connect(Settings())
    await register(found)
    return found


@pytest_asyncio.fixture(loop_scope="session")
async def worker(client: Client, redis: Any) -> AsyncGenerator[None]:
    """Poll the test's task queue, and tell that it lives."""
    settings = Settings()
    folder = settings.payload_folder.absolute()
    me = Presence.of(
        client.identity,
        load_app("").agents,
        app="",
        folder=str(folder),
        marker=mark(folder),
    )
    company = Company(redis, client.namespace, settings.task_queue)
    async with double_worker(client, settings.task_queue), company.present(me):
        yield


class Examined:
    """What `doctor --json` said."""

    def __init__(self, code: int, document: dict[str, Any]) -> None:
        self.code, self.ok, self.checks = code, document["ok"], document["checks"]

    def states(self, state: str) -> list[str]:
        return [name for name, check in self.checks.items() if check["state"] == state]


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str]) -> Any:
    async def examined() -> Examined:
        code = await doctor(Output(as_json=True))
        return Examined(code, json.loads(capsys.readouterr().out))

    return examined


# ---- doctor


@pytest.mark.usefixtures("worker")
async def test_all_is_well(examine: Any, redis: Any, client: Client) -> None:
    """Exit 0; which guarantee and why, how full Redis is, and what an open run takes of it."""
    await redis.config_set("maxmemory", "500mb")
    records = await Scene(client, redis).records("some run", str(uuid.uuid4()))
    seen = await examine()
    assert (seen.code, seen.ok, seen.states("ok")) == (0, True, list(seen.checks))
    guarantee, memory, runs = (seen.checks[n] for n in ("guarantee", "memory", "open runs"))
    assert guarantee["strict"]
    assert "appendfsync always" in guarantee["found"]
    assert (memory["limit_bytes"], memory["used_bytes"] > 0) == (500 * 2**20, True)
    assert (runs["runs"], runs["mean_bytes"] > INLINE_BYTES) == (1, True), "with results beside it"
    await records.end(60_000)
    assert "open runs" not in (await examine()).checks


@pytest.mark.usefixtures("worker")
async def test_people_get_a_line_for_each(capsys: pytest.CaptureFixture[str], redis: Any) -> None:
    """A lossy server is worth a note and no error; no colours where nobody sees them."""
    await redis.config_set("appendfsync", "everysec")
    assert await doctor(Output()) == 0
    said = capsys.readouterr().out
    assert "note   guarantee          lossy: appendfsync everysec\n" in said
    assert "MB used, no limit set\n" in said
    assert "1 worker of release " in said
    assert "\x1b" not in said


async def test_what_is_wrong_is_said_with_what_to_do(examine: Any, redis: Any) -> None:
    """Exit 1: nobody polls, Redis may drop records, and it is too full for new runs."""
    await fill(redis)
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    seen = await examine()
    assert (seen.code, seen.ok) == (1, False)
    assert seen.states("wrong") == ["workers", "guarantee", "memory"]
    todo = {name: seen.checks[name]["todo"] for name in seen.states("wrong")}
    assert "onward-worker" in todo["workers"]
    assert "maxmemory-policy noeviction" in todo["guarantee"]
    assert "raise maxmemory" in todo["memory"]


async def fill(redis: Any) -> None:
    """Set a limit of which more than 80 % are used."""
    used = (await redis.info("memory"))["used_memory"]
    await redis.config_set("maxmemory", int(used * 1.1))


async def test_missing_permissions_are_said_with_the_grant(
    examine: Any, redis: Any, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the Redis user may not do is wrong, and the command that grants it is there."""
    await may(redis, [f"+{command}" for command in NEEDED if command != "info"], keys=["onward:*"])
    monkeypatch.setenv("ONWARD_REDIS_URL", server.url.replace("//", "//app:pw@"))
    seen = await examine()
    assert seen.code == 1
    assert "ACL SETUSER app ~onward:* +info" in seen.checks["permissions"]["todo"]
    assert "ACL SETUSER app ~onward:* +xadd +xread" in seen.checks["watching"]["todo"]
    assert "cannot be read" in seen.checks["guarantee"]["found"]
    assert "pw" not in json.dumps(seen.checks)


_NO_SCHEMA = """
from collections.abc import Callable

from onward import Agent, App, tool


@tool(effect="read")
def call(back: Callable[[], str]) -> str:
    \"\"\"Call back.\"\"\"
    return back()


app = App(Agent("caller", model="claude-sonnet-5-5", tools=[call]))
"""


@pytest.mark.usefixtures("worker")
async def test_an_app_that_a_worker_refuses_is_wrong(
    examine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """It can be imported, but Claude cannot be told of its tool."""
    (tmp_path / "without_schema.py").write_text(_NO_SCHEMA)
    monkeypatch.setenv("ONWARD_APP", "without_schema:app")
    seen = await examine()
    assert (seen.code, seen.states("wrong")) == (1, ["app"])
    assert "tool 'call' cannot be turned into a schema" in seen.checks["app"]["found"]


@pytest.mark.parametrize(
    ("name", "away"), [("ONWARD_REDIS_URL", "Redis"), ("TEMPORAL_ADDRESS", "Temporal")]
)
@pytest.mark.usefixtures("server")
async def test_a_server_that_is_away(
    examine: Any, monkeypatch: pytest.MonkeyPatch, name: str, away: str
) -> None:
    """Exit 3; the other one is looked at all the same."""
    monkeypatch.setenv(name, NOWHERE if away == "Redis" else "127.0.0.1:1")
    seen = await examine()
    assert (seen.code, seen.ok, seen.states("away")) == (3, False, [away])
    assert {"Redis", "Temporal"} - {away} <= set(seen.states("ok"))
    assert name in seen.checks[away]["found"]


# ---- records that no run owns


@pytest.fixture
def scene(client: Client, redis: Any) -> Scene:
    return Scene(client, redis)


async def test_orphans_are_listed_with_what_removes_them(
    capsys: pytest.CaptureFixture[str], scene: Scene, redis: Any
) -> None:
    """Runs that Temporal does not know, with size and age; not those that it knows."""
    await scene.records_of(await scene.start())
    orphan = await scene.records("gone/long ago", str(uuid.uuid4()))
    hour_ago_ms = (await redis.time())[0] * 1000 - 3_600_000
    await redis.hset(orphan.key, "_fence", hour_ago_ms)
    assert await list_orphans(Output(as_json=True)) == 0
    (found,) = json.loads(capsys.readouterr().out)["orphans"]
    assert (found["key"], found["workflow_id"]) == (orphan.key, "gone/long ago")
    assert found["bytes"] > INLINE_BYTES
    assert 3_590 < found["idle_s"] < 3_700
    assert found["expires_s"] is None
    await list_orphans(Output())
    said = capsys.readouterr()
    assert said.out.startswith(f"{orphan.key}\t")
    assert said.out.endswith("\t1 h\tnever\n")
    assert f"--pattern '{orphan.key}*' | xargs -d '\\n'" in said.err
    assert f"in place of {orphan.key}" in said.err
    await redis.unlink(*[key async for key in redis.scan_iter(match=f"{orphan.key}*")])
    await list_orphans(Output())
    assert "no orphans" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="needs the client of Redis")
@pytest.mark.parametrize("password", ["", "p w"])
async def test_what_removes_an_orphan_is_typed_as_it_stands(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    scene: Scene,
    password: str,
) -> None:
    """The command removes the first run's records, whatever its id, and shows no password."""
    await scene.records("gone 'it is' [a-z]*", str(uuid.uuid4()))
    if password:
        await scene.redis.config_set("requirepass", password)
        with_it = Settings().redis_url.replace("//", f"//default:{quote(password)}@")
        monkeypatch.setenv("ONWARD_REDIS_URL", with_it)
    await list_orphans(Output())
    said = capsys.readouterr().err
    assert not password or quote(password) not in said
    (removal,) = (line for line in said.splitlines() if line.startswith("  redis-cli"))
    shell = await asyncio.create_subprocess_shell(removal, stdout=asyncio.subprocess.PIPE)
    await shell.communicate()
    await list_orphans(Output())
    assert "no orphans" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "way"),
    [
        ("redis+sentinel://:p@a:26379,b:26379/main", "-h HOST -p PORT --user USER --askpass "),
        ("rediss://u:p@a:6379/0?ssl_ca_certs=/ca.pem", "--askpass --tls --cacert FILE "),
    ],
)
def test_what_redis_cli_cannot_take_from_a_url_is_left_to_the_reader(url: str, way: str) -> None:
    """It would take Sentinels for a host name, and an option for a database."""
    assert removal("onward:{x}", url).count(way) == 2


@pytest.mark.usefixtures("server")
async def test_orphans_of_a_redis_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is listed, and the error says which server."""
    monkeypatch.setenv("ONWARD_REDIS_URL", NOWHERE)
    with pytest.raises(ConnectError, match="no Redis at"):
        await list_orphans(Output())


def test_sizes_for_people() -> None:
    """Bytes are written as people say them."""
    assert [size(n) for n in (0, 999, 1000, 23_400_000)] == ["0 B", "999 B", "1.0 kB", "23.4 MB"]


# ---- after a backup was restored


async def test_restored_touches_runs_and_nothing_else(
    capsys: pytest.CaptureFixture[str], client: Client, redis: Any
) -> None:
    """Every run gets another birth nonce; a hash without one, and other keys, stay as they are."""
    scene = Scene(client, redis)
    runs = [await scene.records(name, str(uuid.uuid4())) for name in ("a", "b")]
    before = [await redis.hgetall(run.key) for run in runs]
    lost = f"onward:{{lost:{uuid.uuid4()}}}"
    await redis.hset(lost, "s:1", "a record")
    assert await restored(Output(as_json=True), yes=True) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2
    for run, old in zip(runs, before, strict=True):
        new = await redis.hgetall(run.key)
        assert new.pop(b"_ds") != old.pop(b"_ds")
        assert new == old
    assert await redis.hgetall(lost) == {b"s:1": b"a record"}


@pytest.mark.usefixtures("worker")
async def test_restored_warns_of_workers_that_may_be_at_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that runs on trusts the backup; where it cannot be told, that is said."""
    assert await restored(Output(as_json=True), yes=True) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["workers"]) == 1
    assert "1 worker polled" in told.err
    assert "stop all workers before Redis comes back" in told.err
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert await restored(Output(), yes=True) == 0
    assert "cannot see whether all workers are stopped" in capsys.readouterr().err


def test_restored_is_confirmed_by_a_person_or_an_option() -> None:
    """Without a terminal and without --yes nothing is done, and the error names the option."""
    with pytest.raises(UsageError, match="--yes"):
        _ = restored(Output(), yes=False)


# ---- new runs where there is no room


@pytest.mark.usefixtures("worker")
async def test_a_full_redis_takes_no_new_runs(cli: Cli, redis: Any) -> None:
    """`start` says how full it is and what to do; a run that is there is attached to."""
    name = f"run-{uuid.uuid4().hex[:8]}"
    assert (await cli("start", "waits", "--id", name)).code == 0
    await fill(redis)
    refused = await cli("start", "completes", "--id", f"{name}-2")
    assert refused.code == 1
    assert "too full for a new run" in refused.err
    assert "maxmemory" in refused.err
    assert (await cli("status", f"{name}-2")).code == 4
    assert (await cli("start", "waits", "--id", name)).code == 0
    await redis.config_set("maxmemory", 0)
    assert (await cli("start", "completes", "--id", f"{name}-2")).code == 0


@pytest.mark.usefixtures("worker")
async def test_a_redis_that_cannot_be_seen_is_no_reason_to_refuse(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers are connected to it; this command need not be. It warns if one is configured."""
    monkeypatch.setenv("ONWARD_REDIS_URL", NOWHERE)
    ran = await cli("start", "completes")
    assert ran.code == 0
    assert f"cannot see how full the Redis at '{NOWHERE}' is" in ran.err
