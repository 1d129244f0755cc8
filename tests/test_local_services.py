"""The embedded servers: what `onward-worker --local`, the demo and all other tests stand on."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import psutil
import pytest

from onward.errors import UsageError
from onward.local_services import (
    RedisServer,
    TemporalServer,
    read_local,
    redis_server,
    temporal_server,
)
from onward.local_services.data_dir import held_folder
from onward.testing import ManagedProcess, ProcessFailed, WorkerProcess, clean_env, wait_until


def listening(pid: int) -> set[tuple[str, int]]:
    connections = psutil.Process(pid).net_connections(kind="inet")
    return {(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN}


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
    """The link to the UI, and what `onward` was told, stay true after a restart."""
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


@pytest.mark.parametrize("named", ["/nowhere/temporal", __file__, "/etc"])
async def test_no_temporal_cli_says_what_to_do(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """A machine without the CLI, or with another path to it, gets one clear error."""
    monkeypatch.setenv("TEMPORAL_CLI", named)
    with pytest.raises(UsageError, match=rf"'{named}'.*Install Onward's extra 'local'"):
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
    """`onward-worker --local`: found while it lives, its folder its own, dead as one, restarted."""
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
