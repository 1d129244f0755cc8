"""The data folder of embedded servers: one process has it, and `local.json` says where they are."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from onward.errors import UsageError
from onward.local_services import (
    LocalAddresses,
    read_local,
    redis_server,
    remove_local,
    write_local,
)
from onward.local_services.data_dir import held_folder
from onward.testing import ManagedProcess, clean_env, wait_until


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
    """`onward` finds the servers of a running `onward-worker --local`."""
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
