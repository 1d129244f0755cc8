"""What people found broken when a process died: calls left open, results doubled, late resumes."""

import asyncio
import json
import uuid

import pytest
from agent_runs import Bench, app_of, says, uses
from crash_runs import CrashBench

from onward import tool
from onward.ledger import Ledger
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]


def new_order(name: str) -> str:
    """An order id of this test alone."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.mark.field("A01")
@pytest.mark.field("D06")
@pytest.mark.parametrize("name", ["refund", "pay_out"])
async def test_a_crash_between_call_and_result_leaves_no_call_open(
    crash_bench: CrashBench, name: str
) -> None:
    """The run goes on by itself, one result for each call in one message, no effect repeated.

    The first of two calls is done, and the worker dies in the second.
    """
    first, second = new_order("first"), new_order("second")
    step = uses(("refund", {"order": first}), (name, {"order": second}))
    async with crash_bench.worker(FP="f7:2:kill") as worker:
        run = await crash_bench.bench.start(step, says())
        await worker.killed()
    async with crash_bench.worker():
        result = await run.ended()
    assert result.outcome == "completed"
    assert [crash_bench.effects(order) for order in (first, second)] == [1, 1]
    sent = json.loads(run.requests[-1].body)["messages"]
    asked = [block["id"] for block in sent[1]["content"]]
    assert [block["tool_use_id"] for block in sent[2]["content"]] == asked
    doubtful = name == "pay_out"
    assert sent[2]["content"][1].get("is_error", False) == doubtful


@pytest.mark.field("A03")
async def test_a_late_attempt_adds_no_second_result(crash_bench: CrashBench) -> None:
    """One result reaches the conversation, the recorded one.

    An attempt is paused after it recorded, another one returns, the first wakes up.
    """
    order = new_order("late")
    async with crash_bench.worker(FP="f10:1:pause") as paused:
        run = await crash_bench.bench.start(uses(("refund", {"order": order})), says())
        await paused.paused()
        async with crash_bench.worker():
            await wait_until(lambda: len(run.requests) > 1, 30, what="the next request")
            paused.resume()
            result = await run.ended()
    assert result.outcome == "completed"
    assert (crash_bench.effects(order), crash_bench.arrivals(order)) == (1, 1)


@pytest.mark.field("A03")
async def test_an_error_in_clean_up_after_the_effect_adds_no_second_result(bench: Bench) -> None:
    """A tool writes its result, then raises: Claude gets one result, the recorded one."""
    written: list[str] = []

    @tool
    async def write() -> str:
        """Write, and fail to clean up."""
        written.append("line")
        raise OSError("cannot remove the temporary file")

    run = await bench.run(app_of(write), uses(("write", {})), says())
    blocks = json.loads(run.requests[-1].body)["messages"][-1]["content"]
    assert (len(blocks), written) == (1, ["line"])


@pytest.mark.field("B06")
async def test_one_live_call_at_a_time_and_the_lost_one_in_the_spend(
    crash_bench: CrashBench,
) -> None:
    """The next request begins when the first is dead, and the spend shows that one was lost."""
    async with crash_bench.worker() as worker:
        run = await crash_bench.bench.start(says(faults=[Fault(hold_s=40)]))
        await wait_until(lambda: run.requests, 30, what="the first request")
        await asyncio.sleep(2)  # longer than a heartbeat timeout: the attempt must live on
        assert len(run.requests) == 1
        await worker.kill()
    async with crash_bench.worker():
        result = await run.ended()
    assert (len(run.requests), result.spend.requests, result.spend.lost_requests) == (2, 2, 1)
    assert result.spend.unpriced_requests == 1


async def test_tokens_of_a_killed_stream_are_counted(crash_bench: CrashBench) -> None:
    """What the stream had reported before the kill is in the spend, at least."""
    async with crash_bench.worker() as worker:
        run = await crash_bench.bench.start(says(faults=[Fault(stall_s=60, after_events=4)]))
        ledger = crash_bench.bench.ledger(run)
        await wait_until(lambda: _usage_noted(ledger), 30, what="usage in the ledger")
        await worker.kill()
    async with crash_bench.worker():
        result = await run.ended()
    whole = run.requests[-1]
    assert whole.outcome is not None
    assert (result.spend.requests, result.spend.lost_requests) == (2, 1)
    assert result.spend.unpriced_requests == 0


async def _usage_noted(ledger: Ledger) -> bool:
    usages = await ledger.usages("1")
    return any(attempt["usage"] for attempt in usages.values())


async def test_a_step_that_was_recorded_is_not_asked_again(crash_bench: CrashBench) -> None:
    """Kills between steps cost no request: as many requests as steps, plus those in flight."""
    steps = [uses(("look_up", {"order": new_order("step")})) for _ in range(3)]
    async with crash_bench.worker(FP="f12:2:kill") as worker:
        run = await crash_bench.bench.start(*steps, Step(content=[{"type": "text", "text": "."}]))
        await worker.killed()
    async with crash_bench.worker():
        result = await run.ended()
    assert result.steps == 4
    assert len(run.requests) - 4 <= result.spend.lost_requests <= 1
