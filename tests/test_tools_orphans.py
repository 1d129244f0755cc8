"""No process outlives the one that guards itself, however that one dies."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

_GUARDED = """
import fcntl, os, subprocess, sys, time
from pathlib import Path
from onward.tools.orphans import guard

folder = Path(sys.argv[1])
lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
guard(hold_fds=[lock])
guard()
subprocess.Popen(["sleep", "60"])
subprocess.Popen(["sh", "-c", "setsid sh -c 'sleep 60 & exec sleep 60' & sleep 60"])
child = os.fork()
if child == 0:
    time.sleep(60)
(folder / "forked").write_text(str(child))
(folder / "mark").write_text(os.environ["ONWARD_PROCESS_MARK"])
(folder / "ready").touch()
{ending}
"""


def until(condition: Callable[[], bool], deadline_s: float) -> float:
    """Wait for a condition; return the seconds it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < deadline_s, "the condition did not come true"
        time.sleep(0.01)
    return time.monotonic() - started


def alive(pid: int) -> bool:
    """Tell whether a process runs."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def carrying(mark: str) -> list[int]:
    """List the processes that carry a mark."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("ONWARD_PROCESS_MARK") == mark
        except psutil.Error:
            continue
        if marked and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def start(folder: Path, ending: str = "time.sleep(60)") -> "subprocess.Popen[bytes]":
    """Start a guarded process with children of all kinds."""
    code = _GUARDED.replace("{ending}", ending)
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)])
    until((folder / "ready").exists, 20)
    return process


def lock_is_free(folder: Path) -> bool:
    """Tell whether the lock that the guarded process took is free again."""
    with (folder / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.crash
def test_all_descendants_die_with_a_killed_process(tmp_path: Path) -> None:
    """SIGKILL: children, a grandchild of its own session, a fork: all are gone in a second."""
    guarded = start(tmp_path)
    mark = (tmp_path / "mark").read_text()
    forked = int((tmp_path / "forked").read_text())
    until(lambda: len(carrying(mark)) == 5, 5)
    assert alive(forked)
    assert not lock_is_free(tmp_path)
    guarded.send_signal(signal.SIGKILL)
    assert guarded.wait(5) == -9
    took = until(lambda: not carrying(mark) and not alive(forked), 5)
    assert took < 1
    until(lambda: lock_is_free(tmp_path), 2)


@pytest.mark.crash
def test_lock_is_free_only_when_all_are_gone(tmp_path: Path) -> None:
    """A successor that waits for the lock meets no process of its predecessor."""
    guarded = start(tmp_path)
    mark = (tmp_path / "mark").read_text()
    guarded.kill()
    guarded.wait(5)
    until(lambda: lock_is_free(tmp_path), 5)
    assert carrying(mark) == []


@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(3)", "raise SystemError"])
def test_descendants_die_with_a_process_that_ends(tmp_path: Path, ending: str) -> None:
    """Any other end is the same: nothing is left behind."""
    guarded = start(tmp_path, ending)
    mark = (tmp_path / "mark").read_text()
    guarded.wait(5)
    until(lambda: not carrying(mark) and lock_is_free(tmp_path), 5)


@pytest.mark.crash
def test_guarded_child_of_a_guarded_process_takes_its_own_down(tmp_path: Path) -> None:
    """A demo that dies takes its worker with it, and the worker's tools."""
    inner = tmp_path / "inner"
    inner.mkdir()
    ending = f"""
from pathlib import Path
code = Path({str(tmp_path / "code.py")!r})
subprocess.Popen([sys.executable, str(code), {str(inner)!r}])
while not Path({str(inner / "ready")!r}).exists(): time.sleep(0.01)
Path({str(tmp_path / "both")!r}).touch()
time.sleep(60)
"""
    (tmp_path / "code.py").write_text(_GUARDED.replace("{ending}", "time.sleep(60)"))
    environment_path = str(Path(__file__).parents[1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", environment_path)
        guarded = start(tmp_path, ending)
    until((tmp_path / "both").exists, 20)
    marks = [(folder / "mark").read_text() for folder in (tmp_path, inner)]
    assert marks[0] != marks[1]
    guarded.kill()
    guarded.wait(5)
    until(lambda: not any(carrying(mark) for mark in marks), 5)
    until(lambda: lock_is_free(inner), 5)


def test_watcher_survives_ctrl_c_and_its_own_group(tmp_path: Path) -> None:
    """Ctrl-C in the terminal reaches the guarded process, not the one that cleans up after it."""
    guarded = start(tmp_path)
    watchers = [child for child in psutil.Process(guarded.pid).children() if _watches(child)]
    assert len(watchers) == 1
    assert os.getsid(watchers[0].pid) != os.getsid(guarded.pid)
    watchers[0].send_signal(signal.SIGINT)
    watchers[0].send_signal(signal.SIGTERM)
    guarded.kill()
    guarded.wait(5)
    until(lambda: not carrying((tmp_path / "mark").read_text()), 5)
    until(lambda: not watchers[0].is_running(), 5)


def _watches(process: psutil.Process) -> bool:
    return any(part.endswith("orphans.py") for part in process.cmdline())
