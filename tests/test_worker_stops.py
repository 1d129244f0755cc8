"""A worker that is stopped, as by a deploy, is no cancel: another one goes on with its runs."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, says, uses
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import WorkflowExecutionStatus

from onward import ToolContext, tool
from onward.testing import wait_until
from onward.testing.messages_api import Fault

pytestmark = pytest.mark.field("C11")
CANCEL_REQUESTED = PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
SOON: dict[str, Any] = {"graceful_shutdown_timeout": timedelta(seconds=0.2)}
"""What a worker has left for what it cannot finish."""


async def test_a_reply_in_mid_stream_is_asked_for_elsewhere(bench: Bench) -> None:
    """The run stays open with nobody there, and completes; what the lost stream told is counted."""
    async with bench.worker(app_of(), **SOON):
        run = await bench.start(says(faults=[Fault(stall_s=600)]))
        await wait_until(lambda: run.requests and run.requests[0].events_sent, 20, what="a stream")
    await asyncio.sleep(1)
    assert (await run.handle.describe()).status == WorkflowExecutionStatus.RUNNING
    async with bench.worker(app_of()):
        result = await run.ended()
    assert (result.outcome, result.spend.lost_requests) == ("completed", 1)
    assert "cancelled" not in (await run.history()).to_json()


async def test_an_effect_in_its_middle_is_not_doubled(bench: Bench) -> None:
    """Another worker sends it again under its key; one without a key is in doubt, and not sent."""
    keys, sent = list[str](), list[str]()

    @tool(effect="keyed")
    async def keyed(ctx: ToolContext) -> str:
        """Act, and at first never come to an end."""
        keys.append(ctx.idempotency_key)
        await asyncio.sleep(600 if len(keys) == 1 else 0)
        return "acted"

    @tool
    async def once() -> None:
        """Act without a key, and never come to an end."""
        sent.append("once")
        await asyncio.sleep(600)

    async with bench.worker(app_of(keyed, once), **SOON):
        runs = [await bench.start(uses((name, {})), says()) for name in ("keyed", "once")]
        await wait_until(lambda: keys and sent, 20, what="both effects under way")
    async with bench.worker(app_of(keyed, once)):
        results = [await run.ended() for run in runs]
    assert [result.outcome for result in results] == ["completed", "completed"]
    assert [result.in_doubt for result in results] == [(), ("1.1",)]
    assert (len(keys), len({*keys}), sent) == (2, 1, ["once"])


@pytest.mark.cancel
async def test_an_effect_is_not_left_alone_where_a_cancel_and_a_stop_meet(bench: Bench) -> None:
    """The worker stops after the grace of the cancel: the tool has ended, the call is in doubt."""
    began, stopped = list[bool](), list[bool]()

    @tool(effect="keyed")
    async def act() -> None:
        """Act without end."""
        began.append(True)
        try:
            await asyncio.sleep(600)
        finally:
            stopped.append(True)

    async with bench.worker(app_of(act), **SOON):
        run = await bench.start(uses(("act", {})), says())
        await wait_until(lambda: began, 20, what="the call")
        await run.handle.signal("cancel")
        await wait_until(lambda: cancel_requested(run), 20, what="the cancel of the call")
    async with bench.worker(app_of(act)):
        result = await run.ended()
    assert (result.outcome, result.in_doubt, stopped) == ("cancelled", ("1.1",), [True])


async def cancel_requested(run: Run) -> bool:
    """Say whether the run's open activity was asked to end."""
    pending = (await run.handle.describe()).raw_description.pending_activities
    return any(each.state == CANCEL_REQUESTED for each in pending)
