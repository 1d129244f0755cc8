"""Workers that start in a tenth of the time, for tests that kill many.

A worker spends its first seconds importing. Here one process does that once, before any event loop
or Temporal runtime exists in it, and every worker is forked from it.
"""

import asyncio
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.util import get_temp_dir
from pathlib import Path
from types import ModuleType
from typing import Any, Self, cast

from onward.own_code import home, own
from onward.testing.processes import WorkerProcess, worker_env
from onward.tools import orphans

FORK_FOLDER_ENV = "ONWARD_FORK_FOLDER"
"""Where the process that workers are forked from has its socket."""
_POLL_S = 0.01


class WarmWorker(WorkerProcess):
    """A running `onward-worker`, forked from a process that has the imports done."""

    @classmethod
    async def start(
        cls,
        env: Mapping[str, str],
        *,
        args: Sequence[str] = (),
        log: Path,
        cwd: Path | None = None,
    ) -> Self:
        """Start a worker as `WorkerProcess.start` does."""
        return cls.fork(_run_worker, [list(args)], env=env, log=log, cwd=cwd)

    @classmethod
    def fork(
        cls,
        main: Callable[..., int],
        given: Sequence[Any],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
    ) -> Self:
        """Run `main(*given)`, a module's function, in place of `onward-worker`'s own."""
        orphans.guard()
        whole = worker_env(env, log) | {orphans.MARK: os.environ[orphans.MARK]}
        where = (whole, str(log), str(cwd or log.parent))
        log_start = _size(log)
        # daemon: one that a failed test has left must not keep this process from its end.
        context, args = _context(main.__module__), (main, list(given), *where)
        process = context.Process(target=_run, args=args, daemon=True)
        with _no_script():
            process.start()
        name = f"{main.__module__}.{main.__qualname__} (forked)"
        return cls(cast("Any", _Forked(process)), [name, *map(str, given)], log, log_start)


def remove_fork_folder() -> None:
    """Remove what the process that workers are forked from keeps on disk; none is forked after.

    For a process that ends without Python's own clean-up. That process removes it too, but whoever
    watches over this one's children may be faster and kill it.
    """
    if folder := os.environ.get(FORK_FOLDER_ENV):
        shutil.rmtree(folder, ignore_errors=True)


class _Forked:
    """The part of `asyncio.subprocess.Process` that `ManagedProcess` uses."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None, "a process that was started has an id"
        self._process, self.pid = process, process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    async def wait(self) -> int:
        # Polled from one thread: two that read the status at once make one of them read nothing.
        while (code := self.returncode) is None:  # noqa: ASYNC110  (nothing else tells of it)
            await asyncio.sleep(_POLL_S)
        return code


@contextmanager
def _no_script() -> Generator[None]:
    """Hide the script that we are: each child would import it, and need nothing of it."""
    ours = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = ours


def _size(log: Path) -> int:
    log.touch()
    return log.stat().st_size


def _context(also: str) -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.environ[FORK_FOLDER_ENV] = get_temp_dir()
    first = ("onward.testing.own_root", "onward.testing.fork_folder")
    context.set_forkserver_preload([*first, f"{home()}worker", "onward.testing.late_imports", also])
    return context


def _run(
    main: Callable[..., int], given: list[Any], env: dict[str, str], log: str, cwd: str
) -> None:
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    code = main(*given)
    sys.stdout.flush()
    os._exit(code)


def _run_worker(args: list[str]) -> int:
    return int(own("worker").main(args))  # imported already, by the process we are forked from
