"""A tool's code runs apart from the worker's loop, and always comes to a well-formed end."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import pytest

from onward.errors import Rejected
from onward.tools.running import run_apart


async def run(function: Callable[[], Any], timeout_s: float = 5.0) -> object:
    return await run_apart(function, name="probe", timeout_s=timeout_s)


async def _async_sleep() -> str:
    time.sleep(0.5)  # noqa: ASYNC251  (what must not stall the loop)
    return "slept"


def _sync_sleep() -> str:
    time.sleep(0.5)
    return "slept"


@pytest.mark.parametrize("function", [_async_sleep, _sync_sleep])
async def test_blocking_tool_does_not_stall_the_loop(function: Callable[[], Any]) -> None:
    """`time.sleep`, sync or async, leaves heartbeats and leases of all runs alone."""
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.01)

    beating = asyncio.create_task(beat())
    assert await run(function) == "slept"
    beating.cancel()
    assert len(beats) > 10
    assert max(b - a for a, b in pairwise(beats)) < 0.3


async def test_ten_tools_block_beside_each_other() -> None:
    """No tool waits for another's thread."""
    started = time.monotonic()
    await asyncio.gather(*(run(_sync_sleep) for _ in range(10)))
    assert time.monotonic() - started < 3


async def test_thread_is_a_daemon() -> None:
    """A tool that never ends does not keep a worker from exiting."""
    assert await run(lambda: threading.current_thread().daemon) is True


async def test_context_variables_reach_the_tool() -> None:
    """Tracing and logging context of the activity goes on inside the tool."""
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    variable.set("set")

    async def get() -> str:
        return variable.get()

    assert await run(variable.get) == "set"
    assert await run(get) == "set"


async def test_sync_function_that_returns_an_awaitable_is_awaited() -> None:
    """A tool that forgot `async` gives its value, not a coroutine."""

    async def inner() -> str:
        return "value"

    assert await run(lambda: [inner()][0]) == "value"


async def test_error_of_the_tool_is_raised_as_it_is() -> None:
    """What the author raised is what is judged."""

    async def fail() -> None:
        raise Rejected("no")

    with pytest.raises(Rejected, match="no"):
        await run(fail)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("mine")]
)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_tool_cannot_end_or_cancel_the_worker(error: BaseException, is_async: bool) -> None:
    """`sys.exit()` in a tool is that tool's failure, with an unknown effect."""

    def fail() -> None:
        raise error

    async def fail_async() -> None:
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__):
        await run(fail_async if is_async else fail)


async def test_stop_iteration_is_delivered() -> None:
    """The one exception that a future refuses still comes out."""

    def fail() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await run(fail)


async def test_child_task_that_exits_the_process_is_survived() -> None:
    """An event loop lets `SystemExit` of any task break out of the loop: out of the tool's only."""

    async def child() -> None:
        raise SystemExit(1)

    async def parent() -> None:
        await asyncio.gather(asyncio.create_task(child()))

    with pytest.raises(RuntimeError, match="SystemExit"):
        await run(parent)


async def test_async_tool_is_cancelled_at_its_time() -> None:
    """Passing `timeout_s` is a TimeoutError, after the tool could clean up."""
    cleaned = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    with pytest.raises(TimeoutError, match=r"'probe' did not end within 0\.1 s"):
        await run(endless, timeout_s=0.1)
    assert cleaned.is_set()


async def test_sync_tool_is_abandoned_at_its_time() -> None:
    """A thread cannot be stopped, but nobody waits for it."""
    release = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        await run(lambda: release.wait(30), timeout_s=0.1)
    release.set()
    assert time.monotonic() - started < 2


async def test_tool_that_swallows_cancellation_is_abandoned() -> None:
    """A tool that refuses to be cancelled cannot hold its run for ever."""
    release = threading.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    with pytest.raises(TimeoutError):
        await run(stubborn, timeout_s=0.1)
    release.set()


async def test_last_word_of_a_cancelled_tool_counts() -> None:
    """A tool that knows how its effect ended when it is cancelled is believed."""

    async def careful() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "was done already"
        return "slept"

    assert await run(careful, timeout_s=0.1) == "was done already"


async def test_cancelling_the_call_cancels_an_async_tool() -> None:
    """A cancelled run does not leave its tool at work."""
    running, cancelled = threading.Event(), threading.Event()

    async def endless() -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    call = asyncio.create_task(run(endless, timeout_s=60))
    await asyncio.to_thread(running.wait, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cancelled.wait(5)


async def test_cancelling_the_call_leaves_a_sync_tool() -> None:
    """Cancellation does not wait for a thread that cannot be stopped."""
    running, release = threading.Event(), threading.Event()

    def block() -> None:
        running.set()
        release.wait(30)

    call = asyncio.create_task(run(block, timeout_s=60))
    await asyncio.to_thread(running.wait, 5)
    started = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    release.set()
    assert time.monotonic() - started < 2


async def test_result_does_not_wait_for_threads_that_the_tool_left_behind() -> None:
    """Closing the tool's loop waits for its executor; its caller does not."""
    release = threading.Event()

    async def leaves() -> str:
        asyncio.get_running_loop().run_in_executor(None, release.wait, 30)
        return "done"

    started = time.monotonic()
    assert await run(leaves) == "done"
    release.set()
    assert time.monotonic() - started < 2
