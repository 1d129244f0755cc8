"""A tool's code runs on a thread of its own, so that nothing it does can stall the worker.

The worker's event loop heartbeats and renews leases. A tool that blocks it for longer than the
lease would lose its own claim and those of every run beside it (a `time.sleep` in an `async def`
is enough), so neither kind of function ever runs there: a sync one is called on a new daemon
thread, an async one gets an event loop of its own on such a thread. Daemon: a tool that never ends
must not keep a worker from exiting.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_GRACE_S = 1.0
"""How long a cancelled tool may take to clean up before it is abandoned."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: object = None
    error: BaseException | None = None
    cancelled: bool = False


async def run_apart(function: Callable[[], Any], *, name: str, timeout_s: float) -> object:
    """Call `function` on its own thread; await what it returns, there, if that is awaitable.

    Raises what the function raised; what would end the worker (`SystemExit`, `KeyboardInterrupt`)
    or be mistaken for a cancellation comes as `RuntimeError`. Raises `TimeoutError` after
    `timeout_s` seconds: an async function is cancelled first and its own last word counts, if it
    has one; a sync one is abandoned and may go on. The same when the awaiting task is cancelled.
    """
    apart = _Apart(function)
    threading.Thread(target=apart.run, name=f"tool {name}", daemon=True).start()
    try:
        await asyncio.wait([apart.outcome], timeout=timeout_s)
        if not apart.outcome.done():
            await apart.cancel()
    except asyncio.CancelledError:
        await apart.cancel()
        raise
    return _unwrap(apart.outcome, name, timeout_s)


class _Apart:
    """One call on its own thread, seen from the loop that waits for it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.outcome: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self._function = function
        self._waiting_loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # tracing and logging go on inside the tool
        self._lock = threading.Lock()
        self._cancelled = False
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Body of the thread. Whatever the tool does, an outcome is delivered."""
        try:
            value = self._context.run(self._function)
            if inspect.isawaitable(value):
                self._context.run(self._drive, value)
            else:
                self._deliver(_Outcome(value))
        except BaseException as error:  # noqa: BLE001  (a tool's SystemExit must not be lost)
            self._deliver(_Outcome(error=error))

    async def cancel(self) -> None:
        """Cancel the tool if it is async, and give it a moment to say its last word."""
        with self._lock:
            self._cancelled = True
            task, loop = self._task, self._loop
        if task is None or loop is None:
            return
        with suppress(RuntimeError):  # its loop is closed: it has just ended
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([self.outcome], timeout=_GRACE_S)

    def _drive(self, awaitable: Any) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._await(awaitable))

    async def _await(self, awaitable: Any) -> None:
        # The outcome is delivered from inside: closing the loop waits for threads that the tool
        # may have left behind (`asyncio.to_thread`), and nobody needs to wait for those.
        with self._lock:
            self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
            cancelled = self._cancelled
        if cancelled and self._task is not None:
            self._task.cancel()
        try:
            self._deliver(_Outcome(await awaitable))
        except asyncio.CancelledError:
            if not self._cancelled:
                raise  # not ours: a child task's SystemExit is on its way out, or the tool's own
            self._deliver(_Outcome(cancelled=True))
        except BaseException as error:  # noqa: BLE001  (as in `run`)
            self._deliver(_Outcome(error=error))

    def _deliver(self, outcome: _Outcome) -> None:
        def settle() -> None:
            if not self.outcome.done():
                self.outcome.set_result(outcome)

        with suppress(RuntimeError):  # the worker's loop is closed: nobody waits any more
            self._waiting_loop.call_soon_threadsafe(settle)


def _unwrap(future: "asyncio.Future[_Outcome]", name: str, timeout_s: float) -> object:
    outcome = future.result() if future.done() else _Outcome(cancelled=True)
    if outcome.cancelled:
        raise TimeoutError(f"Tool {name!r} did not end within {timeout_s:g} s")
    if outcome.error is None:
        return outcome.value
    # Raised in the worker's loop, these would end the worker, or look like its cancellation.
    harmless = isinstance(outcome.error, Exception) and not isinstance(
        outcome.error, StopIteration | StopAsyncIteration
    )
    if harmless:
        raise outcome.error
    raise RuntimeError(f"Tool {name!r} raised {outcome.error!r}") from outcome.error
