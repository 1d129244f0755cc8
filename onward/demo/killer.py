"""The killer: watches from outside, shoots the worker at the planned places, starts another one.

It sees what anyone could see: what has arrived at the scripted Messages API server and at the
payments service, and which step was finished last. For a kill between two steps it stops the
process (SIGSTOP), looks whether it really is between two steps, and if not lets it go on.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from onward.demo.outside import ClaudeRequests, Payments
from onward.demo.script import Kill
from onward.managed_process import ManagedProcess, ProcessFailed

PATIENCE_S = 120.0
"""How long the killer waits for a planned place before it says that the place never came."""
_LOOK_S = 0.01
_GLANCE_S = 0.001
"""Between two steps there is little time."""
_STOP_S = 3.0
_SETTLE_S = 0.025
"""Until whoever receives what a stopped process had sent has written it down."""


class Prey(Protocol):
    """What is being killed: a worker of Onward, or the plain loop."""

    async def start(self) -> ManagedProcess:
        """Start the next process; it need not be ready."""
        ...

    def finished_steps(self) -> int:
        """Return how many steps have all their results recorded, where the run keeps them."""
        ...


@dataclass(frozen=True)
class Struck:
    """A kill that happened."""

    kill: Kill
    where: str
    """For people."""
    step: int
    """The step that was interrupted; between two steps, the one before."""
    pid: int
    exit_status: int
    at: float
    """Seconds since the epoch."""


class Killer:
    """Runs one process after the other until the plan is done; the last one stays alive."""

    def __init__(
        self,
        plan: Sequence[Kill],
        prey: Prey,
        requests: ClaudeRequests,
        payments: Payments,
        tell: Callable[[Struck], None],
    ) -> None:
        self._plan, self._prey, self._tell = plan, prey, tell
        self._requests, self._payments = requests, payments
        self.process: ManagedProcess | None = None
        self.struck: list[Struck] = []

    async def hunt(self) -> None:
        """Carry the plan out.

        Raises TimeoutError where a place does not come in two minutes, and ProcessFailed, with the
        end of the log, where a process ends by itself.
        """
        process = await self._next()
        for kill in self._plan:
            step, where = await self._moment(kill, process)
            at = time.time()
            status = await process.kill()
            self.struck.append(Struck(kill, where, step, process.pid, status, at))
            self._tell(self.struck[-1])
            process = await self._next()

    async def stop(self) -> None:
        """End the process that is alive; a worker in the middle of a step gets three seconds."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessFailed):  # it ended by itself at that very moment
                await self.process.stop(_STOP_S)

    async def _next(self) -> ManagedProcess:
        self.process = await self._prey.start()
        return self.process

    async def _moment(self, kill: Kill, process: ManagedProcess) -> tuple[int, str]:
        """Wait until the process is where the kill shall strike; say where that is."""
        match kill.place:
            case "claude":
                await _seen(process, lambda: self._requests.waiting(kill.step))
                return kill.step, f"step {kill.step}, while Claude answers"
            case "tool" | "plain":
                tool = "refund" if kill.place == "tool" else "legacy_refund"
                seen = self._payments.applied if kill.applied else self._payments.arrived
                await _seen(process, lambda: seen(kill.order))
                what = "applied but not answered" if kill.applied else "sent but not yet applied"
                return kill.step, f"call {kill.step}.1, {tool} of {kill.order} {what}"
            case "between":
                step = await self._between(kill.step, process)
                return step, f"between steps {step} and {step + 1}"

    async def _between(self, step: int, process: ManagedProcess) -> int:
        """Stop the process right after a step, at `step` or later, and before the next request."""
        before = step - 1
        while True:
            await _seen(process, partial(self._beyond, before), _GLANCE_S)
            process.pause()
            await asyncio.sleep(_SETTLE_S)
            before = self._prey.finished_steps()
            self._requests.look()
            if before >= self._requests.last_step:
                return before
            process.resume()

    def _beyond(self, step: int) -> bool:
        return self._prey.finished_steps() > step


async def _seen(
    process: ManagedProcess, condition: Callable[[], bool], every_s: float = _LOOK_S
) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        if process.returncode is not None:
            raise ProcessFailed(
                f"pid {process.pid} ended with {process.returncode} before it could be killed; its "
                f"log ends with:\n{process.tail()}"
            )
        if time.monotonic() > ends:
            raise TimeoutError(f"the place for a kill did not come in {PATIENCE_S} s")
        await asyncio.sleep(every_s)
