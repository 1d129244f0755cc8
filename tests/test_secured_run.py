"""A whole run where everything is locked: Temporal and Redis behind TLS, each with a login."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
import trustme
from agent_double import Cli
from agent_runs import Bench, connected, says, uses
from certificates import write_certificates, write_pair
from front_door import FrontDoor, front_door
from page_settings import settings_of, write_env
from pages import ROOT
from redis_tls import TlsRedis, tls_redis

from onward.local_services import TemporalServer
from onward.testing.warm import WarmWorker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60)]

APP = """
from pathlib import Path
from onward import Agent, App, tool

@tool
async def act(order: str) -> str:
    "Act, and count it."
    with Path("acted").open("a") as acted:
        acted.write(order + "\\n")
    return "acted"

app = App(Agent("tester", model="claude-sonnet-5-5", tools=[act]))
"""


@dataclass(frozen=True)
class Locked:
    """Both servers, and the folder whose `.env` reaches them."""

    door: FrontDoor
    redis: TlsRedis
    folder: Path


@pytest_asyncio.fixture(loop_scope="session")
async def locked(temporal: TemporalServer, tmp_path: Path) -> AsyncGenerator[Locked]:
    """Run them with certificates of one CA, and write what the pages show into `.env`."""
    ca = trustme.CA()
    files = write_certificates(tmp_path, ca)
    write_pair(files, "here", ca.issue_cert("127.0.0.1"))
    async with (
        front_door(temporal.address, ca.issue_cert("127.0.0.1"), clients=ca) as door,
        tls_redis(files, "here", clients=True) as redis,
    ):
        await _make_user(redis)
        in_redis = {"redis.example.com:6379": f"127.0.0.1:{redis.ports[1]}"}
        in_temporal, here = {"temporal.example.com:7233": door.address}, {"/etc/onward": str(files)}
        write_env(
            tmp_path,
            settings_of("docs/temporal-servers.md", "CLIENT_CERT", in_temporal | here),
            settings_of("docs/redis-servers.md", "ssl_certfile", in_redis | here),
        )
        yield Locked(door, redis, tmp_path)


async def _make_user(redis: TlsRedis) -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("ACL SETUSER onward"))
    async with connected(redis.url) as admin:
        await cast("Any", admin).execute_command(*line.split())


@pytest_asyncio.fixture(loop_scope="session")
async def locked_worker(locked: Locked, bench: Bench) -> AsyncGenerator[WarmWorker]:
    """Run a worker in that folder."""
    (locked.folder / "locked.py").write_text(APP)
    env = {
        "ONWARD_TASK_QUEUE": bench.queue,
        "ONWARD_APP": "locked:app",
        "ANTHROPIC_BASE_URL": bench.api.url,
        "ANTHROPIC_API_KEY": "test",
    }
    worker = await WarmWorker.start(env, log=locked.folder / "worker.log", cwd=locked.folder)
    try:
        await worker.ready()
        yield worker
    finally:
        await worker.stop()


async def test_a_run_through_tls_with_a_user_of_least_rights(
    cli: Cli,
    bench: Bench,
    locked: Locked,
    locked_worker: WarmWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pages' settings are enough for worker and command: a run is strict, and acts once.

    Client certificates on both sides, and in Redis the very user that docs/operating.md makes.
    """
    for name in ("TEMPORAL_ADDRESS", "ONWARD_REDIS_URL"):
        monkeypatch.delenv(name)
    bench.api.scripts["locked"] = bench.script(uses(("act", {"order": "7"})), says("Done."))
    ran = await cli("start", "Go. [script:locked]", "--agent", "tester", "--wait")
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err + locked_worker.output()
    assert (locked.folder / "acted").read_text() == "7\n"
    assert "strict: appendfsync always" in locked_worker.output()
    assert "PASSWORD" not in locked_worker.output()
    assert locked.door.seen
    async with connected(locked.redis.url) as admin:
        assert await cast("Any", admin).keys("onward:{tester-*")
