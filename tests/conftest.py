"""Real servers for the tests: one of each per test process, started when first asked for.

Tests share them, so each uses workflow ids, task queues and keys of its own.
"""

import os
import signal
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from agent_double import Cli, double_worker
from agent_runs import Bench, connected
from crash_runs import CrashBench
from key_leaks import left_behind
from temporalio.client import Client

from onward.connection import connect
from onward.local_services import RedisServer, TemporalServer, redis_server, temporal_server
from onward.payload_store import data_converter
from onward.settings import Settings
from onward.testing import clean_env
from onward.testing.messages_api import ScriptedAPI
from onward.testing.payments import PaymentsProcess, payments_service

# The shell's servers and keys must reach no test, nor what it wants of a screen.
_LIKED = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
# What a person asks of a test: where it reads or writes, and the Temporal that it starts.
_ASKED = {
    "ONWARD_CASSETTES",
    "ONWARD_FIGURES",
    "ONWARD_PICTURES",
    "ONWARD_RECORD",
    "TEMPORAL_CLI",
}
for _name in (os.environ.keys() - clean_env().keys() - _ASKED) | (os.environ.keys() & _LIKED):
    del os.environ[_name]
_NO_PROFILE = Path(__file__).with_name("temporal.toml")
os.environ.update(clean_env({"TEMPORAL_CONFIG_FILE": str(_NO_PROFILE)}))
# A shell's background job ignores Ctrl-C, and so would the commands whose Ctrl-C is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal() -> AsyncGenerator[TemporalServer]:
    """Run a Temporal server without its UI."""
    async with temporal_server(None, ui=False) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_local() -> AsyncGenerator[RedisServer]:
    """Run a Redis-compatible server on which the ledger can be strict; in the end no key leaks."""
    async with redis_server(None) as server:
        yield server
        async with connected(server.url) as redis:
            assert await left_behind(redis) == [], "keys of no kind of onward/redis_server/keys.py"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_url(redis_local: RedisServer) -> str:
    """Say where `redis_local` is."""
    return redis_local.url


@pytest_asyncio.fixture(loop_scope="session")
async def own_redis() -> AsyncGenerator[RedisServer]:
    """Run a Redis-compatible server that this test may kill."""
    async with redis_server(None) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def payments(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[PaymentsProcess]:
    """Run a payments service; look in its books for your own order ids."""
    async with payments_service(tmp_path_factory.mktemp("payments") / "payments.db") as process:
        yield process


@pytest_asyncio.fixture(loop_scope="session")
async def bench(
    temporal: TemporalServer, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncGenerator[Bench]:
    """Lay out what a test of whole runs needs; commands that the test types find it.

    Large payloads are in `tmp_path / "payloads"`.
    """
    payloads = tmp_path / "payloads"
    client = await Client.connect(temporal.address, data_converter=data_converter(payloads))
    async with ScriptedAPI({}) as api, connected(redis_url) as redis:
        bench = Bench(client, redis, api)
        monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
        monkeypatch.setenv("ONWARD_REDIS_URL", redis_url)
        monkeypatch.setenv("ONWARD_TASK_QUEUE", bench.queue)
        monkeypatch.setenv("ONWARD_PAYLOAD_DIR", str(payloads))
        yield bench


@pytest.fixture
def crash_bench(
    bench: Bench,
    temporal: TemporalServer,
    redis_url: str,
    payments: PaymentsProcess,
    tmp_path: Path,
) -> CrashBench:
    """Lay out what a test needs that kills workers."""
    return CrashBench(bench, temporal.address, redis_url, payments, tmp_path)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, temporal: TemporalServer, tmp_path: Path) -> str:
    """A task queue of its own on the test's server, in an empty folder."""
    name = f"cli-{uuid.uuid4().hex}"
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
    monkeypatch.setenv("ONWARD_TASK_QUEUE", name)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.fixture
def where(queue: str, temporal: TemporalServer, redis_url: str) -> dict[str, str]:
    """Settings that lead a worker to that task queue, and to the test's Redis."""
    return {
        "TEMPORAL_ADDRESS": temporal.address,
        "ONWARD_REDIS_URL": redis_url,
        "ONWARD_TASK_QUEUE": queue,
    }


@pytest_asyncio.fixture
async def client(queue: str) -> Client:
    """Connect as a command in that folder would."""
    assert queue
    return await connect(Settings())


@pytest_asyncio.fixture
async def worker(client: Client, queue: str) -> AsyncGenerator[None]:
    """Run a worker of the double on that task queue."""
    async with double_worker(client, queue):
        yield


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run commands in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)
