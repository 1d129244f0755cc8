"""A cancel that lets the step under way end first."""

import asyncio
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, says, uses
from people import waiting

from onward import tool
from onward.testing import wait_until

pytestmark = [pytest.mark.cancel, pytest.mark.replay]


class Slow:
    """An effect that takes as long as a test wants."""

    def __init__(self, **options: Any) -> None:
        self.began, self.done, self.go_on = list[str](), list[str](), asyncio.Event()
        declared: dict[str, Any] = {"effect": "keyed"} | options

        @tool(**declared)
        async def act(x: str) -> str:
            """Act."""
            self.began.append(x)
            while not self.go_on.is_set():  # noqa: ASYNC110  (set in another event loop)
                await asyncio.sleep(0.02)
            self.done.append(x)
            return x

        self.tool = act


async def after_step(run: Run) -> None:
    """Ask the run to end after its step."""
    await run.handle.signal("cancel", {"reason": "enough", "after_step": True})


async def test_the_calls_of_the_step_end_first(bench: Bench) -> None:
    """Those too that had not begun; then Claude is not asked again."""
    slow = Slow()
    async with bench.worker(app_of(slow.tool)):
        run = await bench.start(uses(("act", {"x": "a"}), ("act", {"x": "b"})), says())
        await wait_until(lambda: slow.began, 20, what="the first call")
        await after_step(run)
        assert (await run.status()).state == "cancelling"
        slow.go_on.set()
        result = await run.ended()
    assert (result.outcome, result.detail, result.in_doubt) == (
        "cancelled",
        "cancelled: enough",
        (),
    )
    assert (slow.done, result.steps, len(run.requests)) == (["a", "b"], 1, 1)
    await run.replay()


async def test_a_second_cancel_does_not_wait_for_the_step(bench: Bench) -> None:
    """Whoever finds that it takes too long says `cancel`: no further call begins."""
    slow = Slow()
    async with bench.worker(app_of(slow.tool)):
        run = await bench.start(uses(("act", {"x": "a"}), ("act", {"x": "b"})), says())
        await wait_until(lambda: slow.began, 20, what="the first call")
        await after_step(run)
        await run.handle.signal("cancel")
        slow.go_on.set()
        result = await run.ended()
    assert (result.outcome, result.detail, slow.began) == ("cancelled", "cancelled: enough", ["a"])
    await run.replay()


async def test_a_step_that_waits_for_a_person_is_not_waited_for(bench: Bench) -> None:
    """It may wait for days, so the run ends at once; nobody can approve the call any more."""
    slow = Slow(ask="always")
    async with bench.worker(app_of(slow.tool)):
        run = await bench.start(uses(("act", {"x": "a"})), says())
        await waiting(run)
        await after_step(run)
        result = await run.ended()
    assert (result.outcome, result.in_doubt, slow.began) == ("cancelled", (), [])
    await run.replay()
