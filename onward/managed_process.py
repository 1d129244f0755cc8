"""One process of ours: started with its output in a file, watched, paused, killed.

The embedded servers, and everything that tests kill, are such processes. Their output goes to a
file and not to a pipe, because a pipe that nobody reads stops its writer, and because the file is
still there when a test wants to know why the process died.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from time import monotonic
from typing import Any, Self, TypeVar, overload

from onward.errors import OnwardError
from onward.tools import orphans

STOP_DEADLINE_S = 10.0
"""How long a process may take to end after SIGTERM before it is killed, seconds."""

_PRIVATE = ("ANTHROPIC_", "TEMPORAL_", "ONWARD_")
_TAIL_BYTES = 4_000

T = TypeVar("T")


class ProcessFailed(OnwardError):
    """A process ended or did not become ready; the message holds the end of its log."""


@overload
async def wait_until(
    condition: Callable[[], Awaitable[T]], deadline_s: float, *, what: str = ""
) -> T: ...
@overload
async def wait_until(condition: Callable[[], T], deadline_s: float, *, what: str = "") -> T: ...
async def wait_until(condition: Callable[[], Any], deadline_s: float, *, what: str = "") -> Any:
    """Wait until `condition` (sync or async) returns something true, and return that.

    `deadline_s` is in seconds; `what` says in words what is waited for. Raises TimeoutError that
    names it and the last value. An exception in `condition` is raised at once.
    """
    ends = monotonic() + deadline_s
    pause_s = 0.005
    while True:
        value = condition()
        if isawaitable(value):
            value = await value
        if value:
            return value
        if monotonic() > ends:
            name = what or getattr(condition, "__qualname__", repr(condition))
            raise TimeoutError(f"waited {deadline_s} s for {name}; last value: {value!r}")
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)


def clean_env(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without settings and secrets of Anthropic, Temporal and Onward, plus `added`.

    `FP` (see onward/failpoints.py) is left out too: a failpoint is meant for one process.
    """
    # A proxy has none of the servers that we start on this machine, and is asked for them all.
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not (name == "FP" or name.startswith(_PRIVATE))
    }
    kept["no_proxy"] = ",".join(filter(None, (direct, "127.0.0.1", "localhost")))
    return kept | dict(added or {})


class ManagedProcess:
    """A running child process, in a session of its own, with stdout and stderr in `log`.

    Its own session: Ctrl-C in a terminal reaches only us, and we end it in our order.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, argv: Sequence[str], log: Path, log_start: int
    ) -> None:
        self._process = process
        self.argv = tuple(argv)
        self.log = log
        """File with stdout and stderr; a successor may append to it."""
        self._log_start = log_start  # what a predecessor said there does not count as ours

    @classmethod
    async def spawn(
        cls,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Self:
        """Start `argv`; `env` is its whole environment. It dies with us, even at our SIGKILL.

        Raises OSError where it cannot start.
        """
        orphans.guard()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            log_start = output.tell()
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**env, orphans.MARK: os.environ[orphans.MARK]},
                cwd=cwd,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        return cls(process, argv, log, log_start)

    @property
    def pid(self) -> int:
        """The process id; of a process that has ended, the one that it had."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, -N after signal N; None while it runs."""
        return self._process.returncode

    def output(self) -> str:
        """Return everything that this process has written so far."""
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")

    def tail(self) -> str:
        """Return the end of the log, for error messages."""
        return self.output()[-_TAIL_BYTES:].strip() or "(the log is empty)"

    async def until(self, condition: Callable[[], object], deadline_s: float, *, what: str) -> None:
        """Wait until `condition` (sync or async) is true while the process lives.

        Raises ProcessFailed, with the end of the log, if the process ends or time is over.
        """

        async def alive_and_true() -> object:
            if self.returncode is not None:
                raise ProcessFailed(self._report(f"ended with {self.returncode} before {what}"))
            found = condition()
            return await found if isawaitable(found) else found

        try:
            await wait_until(alive_and_true, deadline_s, what=what)
        except TimeoutError as error:
            raise ProcessFailed(self._report(str(error))) from error

    async def logged(self, text: str, deadline_s: float) -> None:
        """Wait until `text` is in the log. Raises as `until`."""
        await self.until(lambda: text in self.output(), deadline_s, what=f"{text!r} in its log")

    async def wait(self, deadline_s: float) -> int:
        """Wait for its end; returns the exit status. Raises ProcessFailed after `deadline_s`."""
        try:
            return await asyncio.wait_for(self._process.wait(), deadline_s)
        except TimeoutError as error:
            raise ProcessFailed(self._report(f"still runs after {deadline_s} s")) from error

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended."""
        if self.returncode is None:
            # Not `send_signal`: it polls first, and may so reap a child that has just ended. The
            # watcher that waits for it is then told nothing, and its exit status reads 255.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def kill(self) -> int:
        """SIGKILL it, as a machine that dies would, and return the exit status, -9.

        Raises ProcessFailed if it had ended before in another way: a test that thinks it killed
        something would prove nothing.
        """
        self.signal(signal.SIGKILL)
        status = await self._process.wait()
        if status != -signal.SIGKILL:
            raise ProcessFailed(self._report(f"was not killed: it had ended with {status} before"))
        return status

    def pause(self) -> None:
        """SIGSTOP: it stands still, as in a stalled container, and knows nothing of it."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on."""
        self.signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, as a deploy sends it; also to a process that is paused."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a stopped process sees SIGTERM only when it goes on

    async def stop(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """End it: SIGTERM, and SIGKILL after `deadline_s`. Returns the exit status."""
        self.terminate()
        try:
            return await asyncio.wait_for(self._process.wait(), deadline_s)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            return await self._process.wait()
        except asyncio.CancelledError:
            self.signal(signal.SIGKILL)  # whoever cancels us has no time: leave nothing behind
            raise

    def _report(self, what_happened: str) -> str:
        return (
            f"{Path(self.argv[0]).name} (pid {self.pid}) {what_happened}\n"
            f"  command: {' '.join(self.argv)}\n  log: {self.log}, which ends with:\n{self.tail()}"
        )
