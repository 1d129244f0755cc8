"""No child process outlives the process that guards itself, however that one dies.

A shell that a killed worker leaves behind is a second writer beside its successor. SIGKILL runs no
clean-up code, and process groups are left by `setsid`, so a *watcher* does it: a tiny process of
its own session that holds one end of a pipe. When the pipe closes, or its parent is another, the
guarded process is gone, and the watcher kills every process that carries its mark in its
environment, which children inherit.

A child that is forked without `exec` (multiprocessing) has its parent's environment of old: it
reports its process id through the pipe and closes its copy of it. Only a process that is started
with an emptied environment escapes.

This file is also the watcher's program, run by path: it must not import Onward, which would take
half a second in which nobody watches.
"""

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress

import psutil

MARK = "ONWARD_PROCESS_MARK"
"""Environment variable that names the guarded process whose descendant a process is."""

_POLL_S = 0.2
_SETTLE_S = 0.1
_KILLING_S = 10.0
_READY = b"watching\n"


class _Guarded:
    """The process that called `guard`; after a fork, another."""

    pid: int | None = None


def guard(hold_fds: Sequence[int] = ()) -> None:
    """Have all processes that this one will start killed when it is gone. Once per process.

    `hold_fds`: file descriptors that stay open until that is done, as of a lock file (`flock`)
    that a successor waits for. A second call does nothing. Raises `RuntimeError` if the watcher
    does not start, or if a second call comes with descriptors.
    """
    if _Guarded.pid == os.getpid():
        if hold_fds:
            raise RuntimeError("guard() was called before; pass hold_fds to its first call")
        return
    os.environ[MARK] = mark = uuid.uuid4().hex
    read_end, write_end = os.pipe()
    try:
        _start_watcher(mark, read_end, hold_fds)
    finally:
        os.close(read_end)
    _Guarded.pid = os.getpid()
    os.register_at_fork(after_in_child=lambda: _report(write_end))


def _start_watcher(mark: str, read_end: int, hold_fds: Sequence[int]) -> None:
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    watcher = subprocess.Popen(
        [sys.executable, "-P", __file__, mark, str(os.getpid())],
        env=unmarked,
        stdin=read_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=hold_fds,
        start_new_session=True,
        cwd="/",
    )
    with watcher.stdout or open(os.devnull, "rb") as said:  # noqa: PTH123
        if said.readline() != _READY:
            raise RuntimeError(f"the watcher of child processes did not start: {watcher.args!r}")


def _report(write_end: int) -> None:
    """Tell the watcher of a child that was forked, in that child."""
    try:
        os.write(write_end, b"%d\n" % os.getpid())
        os.close(write_end)
    except OSError:
        pass  # the watcher is gone, or the child has closed its descriptors


def kill_marked(name: str, value: str, also: Iterable[psutil.Process] = ()) -> None:
    """SIGKILL every process whose environment has `name=value`, and those of `also`.

    Repeats until none is left, because a process may start another between our look and its end.
    Gives up after 10 s (a process in an uninterruptible wait ends when that does).
    """
    deadline = time.monotonic() + _KILLING_S
    doomed = [*also, *marked(name, value)]
    while doomed and time.monotonic() < deadline:
        for process in doomed:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(doomed, timeout=_POLL_S)
        doomed = marked(name, value)


def marked(name: str, value: str) -> list[psutil.Process]:
    """List the processes whose environment has `name=value`, the calling one excepted."""
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _environment(process).get(name) == value
    ]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return {}
        return process.environ()
    except (psutil.Error, OSError):
        return {}  # gone meanwhile, or another user's


def _watch(mark: str, parent: int) -> None:
    """Wait for the end of the guarded process, then kill what it left."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    os.close(sys.stdout.fileno())
    kill_marked(MARK, mark, also=_forked_until_end(parent))
    # A child that was between fork and exec had no mark yet.
    time.sleep(_SETTLE_S)
    kill_marked(MARK, mark)


def _forked_until_end(parent: int) -> list[psutil.Process]:
    """Return, when the parent is gone, the children that reported themselves."""
    forked: dict[int, psutil.Process] = {}
    rest = b""
    ended: float | None = None
    # The last fork may report itself after its parent's end: until all have, the pipe is open.
    while ended is None or time.monotonic() < ended + _POLL_S:
        if ended is None and os.getppid() != parent:
            ended = time.monotonic()
        if not select.select([sys.stdin.fileno()], [], [], _POLL_S)[0]:
            continue
        read = os.read(sys.stdin.fileno(), 4096)
        if not read:
            break
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            _remember(forked, int(line))
    return [process for process in forked.values() if process.is_running()]


def _remember(forked: dict[int, psutil.Process], pid: int) -> None:
    for ended in [known for known, process in forked.items() if not process.is_running()]:
        del forked[ended]
    try:
        forked[pid] = psutil.Process(pid)  # knows its start time: a later namesake is not it
    except psutil.Error:
        return


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]))
