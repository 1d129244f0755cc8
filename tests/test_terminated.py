"""A run that is taken away from its worker while an activity is at work."""

import pytest
from agent_runs import Bench, app_of, says, uses

from onward import history
from onward.history import RunKey
from onward.testing import wait_until
from onward.testing.messages_api import Fault


async def test_a_terminated_run_asks_claude_no_longer(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The request is cut off, and the log has a few lines of that, not an error about an error."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[Fault(hold_s=40)]))
        await wait_until(lambda: run.requests, 30, what="the first request")
        await run.handle.terminate()
        await wait_until(lambda: run.requests[0].outcome, 30, what="the end of the request")
    # Temporal is told of an error with its causes: one that is its own has no end of them.
    assert "Exception handling failed" not in caplog.text


async def test_a_step_that_was_asked_again_is_one_step_of_a_terminated_run(bench: Bench) -> None:
    """What history alone tells is what the run would have told: the reply put aside is no step."""
    cut = uses(("look", {"at": "something that has a long name"}), needs_tokens=1500)
    async with bench.worker(app_of(max_tokens=1000)):
        run = await bench.start(cut, says(faults=[Fault(hold_s=40)]))
        await wait_until(lambda: len(run.requests) == 3, 30, what="the second step's request")
        await run.handle.terminate()
    key = RunKey(run.name, run.handle.first_execution_run_id or "")
    ended = await history.ended(bench.temporal, key)
    assert ended is not None
    assert (ended.result.steps, ended.result.spend.requests) == (1, 2)
