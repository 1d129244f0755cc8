"""What people say at a moment when a run is busy with something else: nothing of it is lost."""

import asyncio
import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import FOUND, SEARCH, Bench, app_of, says, uses
from forked import Effects, fork, messages, told_last
from people import refused, say, send, waiting
from temporalio.client import WorkflowFailureError
from test_carried_waits import in_doubt
from test_forks import first_of
from test_on_waiting import app_with, asks
from test_pausing_runs import is_doing

from activities import fork as fork_activity
from activities.editing import EditActivity
from onward import WaitingNotice, tool
from onward.messages import RunRequest
from onward.names import WORKFLOW
from onward.search_attributes import register
from onward.testing import wait_until
from onward.testing.messages_api import ErrorDetail, Fault, Step

pytestmark = pytest.mark.replay


class Gate:
    """Holds an activity up, before it does what it does, until a test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, function: str) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        held = getattr(owner, function)

        async def late(*given: Any) -> Any:
            self.reached.set()
            await self.open.wait()
            return await held(*given)

        monkeypatch.setattr(owner, function, late)


@tool(moves_money=True, timeout_s=0.5, ask="always")
async def pay_out(to: str) -> str:
    """Pay out, at a service that does not answer."""
    raise TimeoutError(to)


async def test_what_is_said_to_a_fork_while_it_copies_counts(
    bench: Bench, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy takes a while and brings the parent's state: a pause and a message outlive that."""
    effects = Effects()
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("look", {})), says())
        await parent.ended()
        gate = Gate(monkeypatch, fork_activity, "unseen")
        forked = await fork(cli, parent, "--message", "Go on.", then=[says(), says()])
        await gate.reached.wait()
        await send(forked, "And hurry.", id="hurry")
        await forked.handle.signal("pause")
        gate.open.set()
        assert (await is_doing(forked, "paused")).unseen == 1
        await forked.handle.signal("resume")
        result = await forked.ended()
    assert (result.outcome, result.unseen) == ("completed", ())
    assert told_last(parent).index("Go on.") < told_last(parent).index("And hurry.")
    await forked.replay()


PAUSED = Step(content=[SEARCH], stop_reason="pause_turn")
IN_CODE = Step(
    content=[
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}},
        {
            "type": "tool_use",
            "name": "look",
            "input": {},
            "caller": {"type": "code"},
        },
    ],
    fields={"container": {"id": "box"}},
)


@pytest.mark.parametrize(
    ("step", "then"),
    [(PAUSED, Step(content=[FOUND, {"type": "text", "text": "It rains."}])), (IN_CODE, says())],
    ids=["paused", "in code"],
)
async def test_a_fork_says_nothing_into_a_turn_of_the_api(
    bench: Bench, cli: Cli, step: Step, then: Step
) -> None:
    """The API takes only results there: what the parent never saw, and the fork's own words, wait.

    Redis may lose them meanwhile.
    """
    effects, asked_for = Effects(), step.model_copy(update={"delay_s": 1})
    async with bench.worker(effects.app):
        parent = await bench.start(asked_for)
        await wait_until(lambda: parent.requests, 20, what="the request")
        await send(parent, "And hurry.", id="hurry")
        await parent.handle.signal("cancel", {"after_step": True})
        assert [each.id for each in (await parent.ended()).unseen] == ["hurry"]
        slowly = says("Soon.", delay_s=1)
        forked = await fork(cli, parent, "--message", "Go on.", then=[then, slowly, says()])
        await wait_until(lambda: len(parent.requests) > 2, 20, what="the turn after")
        assert await bench.redis.delete(bench.ledger(await first_of(forked)).key) == 1
        await send(forked, "At last.")
        result = await forked.ended()
    parent.check_requests()
    assert (result.outcome, result.steps) == ("completed", 4)
    said = [block.get("text") for block in messages(parent, 2)[-1]["content"]]
    assert said == ["And hurry.", "Go on."]
    await forked.replay()


async def test_an_edit_that_comes_too_late_settles_no_doubt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time for it ran out, and the call ran as Claude asked: the edit is no word about that."""
    gate = Gate(monkeypatch, EditActivity, "_edited")
    app = app_of(pay_out, ask_timeout_s=1.5, at_ask_timeout="approve")
    async with bench.worker(app):
        run = await bench.start(uses(("pay_out", {"to": "A"})), says())
        await waiting(run)
        editing = asyncio.create_task(refused(run, "approve", "1.1", edit='{"to": "B"}'))
        await gate.reached.wait()
        await in_doubt(run)
        gate.open.set()
        assert "your input was not taken" in await editing
        assert [each.kind for each in await waiting(run)] == ["doubt"]
        await run.handle.signal("cancel")
        assert (await run.ended()).in_doubt == ("1.1",)
    await run.replay()


async def test_an_edit_that_nobody_can_judge_ends(bench: Bench) -> None:
    """No worker has the tool: whoever edits is told so, and another can still deny the call."""
    async with bench.worker(app_of(pay_out)):
        run = await bench.start(uses(("pay_out", {"to": "A"})), says())
        await waiting(run)
    async with bench.worker(app_of()):
        said = await refused(run, "approve", "1.1", edit='{"to": "B"}')
        await say(run, "deny", "1.1")
        await run.handle.signal("cancel")
        await run.ended()
    assert "lacks the tool 'pay_out'; start a worker that has it" in said
    await run.replay()


async def _hangs(notice: WaitingNotice) -> None:
    await asyncio.sleep(3600 + len(notice.call))


async def test_a_hook_that_hangs_delays_no_continue_as_new(bench: Bench) -> None:
    """What it is told of is decided: the run goes on in a new history without it."""
    bench.history_events = 12
    async with bench.worker(app_with(_hangs)):
        run = await bench.start(asks("A-7"), says())
        await waiting(run)
        said = time.monotonic()
        await say(run, "approve", "1.1")
        await run.ended()
    assert time.monotonic() - said < 9
    assert len(await run.chain()) > 1
    await run.replay()


@pytest.mark.cancel
async def test_a_run_that_fails_says_so_though_it_was_to_end(bench: Bench) -> None:
    """It was to end after its step, which failed: that is why it ended, not the cancel."""
    error = ErrorDetail(type="invalid_request_error", message="no such thing")
    step = says(faults=[Fault(status=400, error=error)], faults_forever=True, delay_s=1)
    async with bench.worker(app_of()):
        run = await bench.start(step)
        await wait_until(lambda: run.requests, 20, what="the request")
        await run.handle.signal("cancel", {"reason": "enough", "after_step": True})
        result = await run.failed()
    assert "no such thing" in result.detail


async def test_tags_that_no_index_holds_are_refused(bench: Bench) -> None:
    """Started without Onward's client: Temporal would terminate the run, and with it its result."""
    assert "OnwardTags" in (await register(bench.temporal)).usable
    async with bench.worker(app_of(), search_attributes=True):
        with pytest.raises(WorkflowFailureError) as caught:
            await bench.temporal.execute_workflow(
                WORKFLOW,
                RunRequest(prompt="Go.", agent="tester", tags={"order": "1" * 3000}),
                id=f"run-{uuid.uuid4().hex[:12]}",
                task_queue=bench.queue,
                execution_timeout=timedelta(seconds=20),
            )
    assert "has 3000 characters; at most 190" in str(caught.value.cause)
