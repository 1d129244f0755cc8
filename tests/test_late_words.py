"""What a person said while no worker was there to hear it."""

import time
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from agent_runs import Bench, Run, app_of, says, uses
from people import say, waiting
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError

from onward import tool
from onward.messages import Resolve
from onward.testing import wait_until


async def test_what_is_heard_late_was_said_early(bench: Bench) -> None:
    """Said within the quarantine and heard after it: what landed meanwhile they had not seen."""
    bench.takeover_s = 1.0

    @tool(moves_money=True, timeout_s=0.5)
    async def pay_out() -> None:
        """Pay out."""
        raise httpx2.ReadTimeout("no answer")

    async with bench.worker(app_of(pay_out)):
        run = await bench.start(uses(("pay_out", {})), says())
        (call,) = await waiting(run)
    said_ms = int(time.time() * 1000)
    said = Resolve(call="1.1", view=call.view, outcome="failed", said_ms=said_ms)
    handle: Any = run.handle
    with pytest.raises(WorkflowUpdateRPCTimeoutOrCancelledError):
        await handle.execute_update("resolve", said, rpc_timeout=timedelta(seconds=2))
    over_ms = int(call.view) + 2_000
    await wait_until(lambda: time.time() * 1000 > over_ms, 10, what="the quarantine's end")
    async with bench.worker(app_of(pay_out)):
        await wait_until(lambda: heard(run), 20, what="the word that was kept")
        assert len(await waiting(run)) == 1
        await say(run, "resolve", "1.1", outcome="done")
        await run.ended()


async def heard(run: Run) -> bool:
    events = (await run.history()).events
    return any(e.HasField("workflow_execution_update_completed_event_attributes") for e in events)
