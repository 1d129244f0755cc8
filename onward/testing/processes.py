"""A worker as a process of its own, to be killed, paused and started again by a test.

    worker = await WorkerProcess.start({"ONWARD_REDIS_URL": url, "FP": "f6:1:kill"}, log=log)
    await worker.ready()
    await worker.killed()                  # the failpoint struck
    successor = await WorkerProcess.start({"ONWARD_REDIS_URL": url}, log=other_log)

See `onward/failpoints.py` for the points at which `FP` kills or pauses it.
"""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from onward import own_code
from onward.managed_process import ManagedProcess, ProcessFailed, clean_env, wait_until

READY_DEADLINE_S = 60.0
"""Until a worker polls; importing its libraries takes seconds on a busy machine."""

__all__ = [
    "ManagedProcess",
    "ProcessFailed",
    "ServiceProcess",
    "WorkerProcess",
    "clean_env",
    "wait_until",
]


def worker_env(env: Mapping[str, str], log: Path) -> dict[str, str]:
    """Whole environment of a worker that logs to `log`: `env`, and nobody else's settings."""
    log.parent.mkdir(parents=True, exist_ok=True)
    empty = log.with_suffix(".temporal.toml")  # in place of the one in the person's home
    empty.touch()
    return clean_env({"PYTHONUNBUFFERED": "1", "TEMPORAL_CONFIG_FILE": str(empty), **env})


class WorkerProcess(ManagedProcess):
    """A running `onward-worker`."""

    @classmethod
    async def start(
        cls,
        env: Mapping[str, str],
        *,
        args: Sequence[str] = (),
        log: Path,
        cwd: Path | None = None,
    ) -> Self:
        """Start a worker; `env` is added to an environment without anyone's settings and keys.

        `cwd`, by default the log's folder, is where it looks for `.env` and for the app's module:
        the checkout's own `.env` must not reach a test. Await `ready()` before using it.
        """
        return await cls.spawn(
            [*own_code.command("worker"), *args],
            log=log,
            env=worker_env(env, log),
            cwd=cwd or log.parent,
        )

    async def ready(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait until it polls its task queue. Raises ProcessFailed with the end of its log."""
        await self.logged("polling", deadline_s)

    async def killed(self, deadline_s: float = READY_DEADLINE_S) -> int:
        """Wait until a failpoint has killed it, and return -9.

        Raises ProcessFailed where it lives on or ends in another way.
        """
        status = await self.wait(deadline_s)
        if status != -signal.SIGKILL:
            raise ProcessFailed(self._report(f"ended with {status} and was not killed"))
        return status

    async def paused(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait until a failpoint has paused it; `resume()` lets it go on."""
        await self.until(self._is_stopped, deadline_s, what="pausing at a failpoint")

    def _is_stopped(self) -> bool:
        return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)


class ServiceProcess(ManagedProcess):
    """A module run as a server, that prints one JSON line with its `url` when it is ready."""

    url: str
    """Where it answers, without a slash at the end."""

    @classmethod
    async def start_module(cls, module: str, *args: str, log: Path) -> Self:
        """Run `python -m module args` and wait until it says where it is.

        Raises ProcessFailed with the end of its log.
        """
        process = await cls.spawn([sys.executable, "-m", module, *args], log=log, env=clean_env())
        try:
            await process.until(process._read_url, READY_DEADLINE_S, what="its url")  # noqa: SLF001
        except BaseException:
            await process.stop()
            raise
        return process

    def _read_url(self) -> bool:
        for line in self.output().splitlines(keepends=True):
            if line.startswith('{"url"') and line.endswith("\n"):
                self.url = json.loads(line)["url"]
                return True
        return False
