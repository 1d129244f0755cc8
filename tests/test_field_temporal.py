"""What people found broken around Temporal: stuck, repeated, not cancelled, changed on the way."""

import asyncio
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, says, uses
from pydantic import BaseModel
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from test_field_conversation import results_in

from activities import tools
from onward import ToolContext, tool
from onward.names import WORKFLOW
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step


@pytest.mark.field("C04")
def test_workflows_import_no_client() -> None:
    """What a workflow imports brings in no Claude, Redis or HTTP client, and reads no setting."""
    code = "import sys, workflows.agent; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"anthropic", "redis", "httpx2", "onward.settings"} & set(loaded)


@pytest.mark.field("C04")
@pytest.mark.filterwarnings("error:.*imported after initial workflow load")
async def test_the_sandbox_loads_nothing_late(bench: Bench) -> None:
    """A run in the default sandbox, also one that fails, loads no module after the beginning."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[Fault(status=400)], faults_forever=True))
        await run.failed()


@pytest.mark.field("C06")
async def test_a_prompt_that_no_activity_could_take_fails_the_run_at_once(bench: Bench) -> None:
    """Temporal takes it as the run's input; with anything beside it, a task would fail for ever."""
    async with bench.worker(app_of()):
        run = await bench.start(says(), prompt="x" * (2 * 1024 * 1024 - 500))
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(run.handle.result(), 20)
    assert "a file that a tool reads" in str(caught.value.cause)


@pytest.mark.field("C06")
@pytest.mark.parametrize(
    "given", [{"prompt": 5, "agent": "tester"}, "not an object", {}, None], ids=repr
)
async def test_an_input_of_the_wrong_type_fails_the_run_at_once(bench: Bench, given: Any) -> None:
    """Status Failed within ten seconds; no workflow task that is retried for ever."""
    async with bench.worker(app_of()):
        name = f"run-{uuid.uuid4().hex[:12]}"
        handle = await bench.temporal.start_workflow(
            WORKFLOW, given, id=name, task_queue=bench.queue
        )
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), 10)


async def test_a_start_without_input_fails_the_run_at_once(bench: Bench) -> None:
    """As the Temporal UI makes it when nothing is typed into its form."""
    async with bench.worker(app_of()):
        name = f"run-{uuid.uuid4().hex[:12]}"
        handle = await bench.temporal.start_workflow(WORKFLOW, id=name, task_queue=bench.queue)
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), 10)


async def _cancelled_in(run: Run) -> float:
    asked = time.monotonic()
    await run.handle.signal("cancel")
    result = await run.ended()
    assert result.outcome == "cancelled"
    return time.monotonic() - asked


@pytest.mark.field("C09")
@pytest.mark.parametrize("hold", ["before the first byte", "in mid-stream"])
async def test_cancel_reaches_a_long_model_call(bench: Bench, hold: str) -> None:
    """The request is dropped and the run is cancelled within seconds; its tokens are counted."""
    first = hold == "before the first byte"
    fault = Fault(hold_s=600) if first else Fault(stall_s=600, after_events=3)
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[fault]))
        await wait_until(lambda: run.requests, 20, what="the request")
        if not first:
            await asyncio.sleep(0.2)
        assert await _cancelled_in(run) < 6
    assert run.result is not None
    assert run.result.spend.requests == 1
    assert run.result.spend.lost_requests == 1
    assert (run.result.spend.input_tokens > 0) == (not first)


@pytest.mark.field("C09")
async def test_cancel_is_as_fast_where_takeover_is_slow(bench: Bench) -> None:
    """A long ONWARD_TAKEOVER_S saves tokens in throttled containers; it delays no cancel."""
    patient = replace(bench, takeover_s=60)
    async with patient.worker(app_of()):
        run = await patient.start(says(faults=[Fault(hold_s=600)]))
        await wait_until(lambda: run.requests, 20, what="the request")
        assert await _cancelled_in(run) < 6


@pytest.mark.field("C09")
@pytest.mark.parametrize("effect", ["read", "keyed", "at_most_once"])
async def test_cancel_reaches_a_tool_that_blocks_its_thread(bench: Bench, effect: Any) -> None:
    """A sync tool that blocks keeps no run from being cancelled; its effect is then in doubt."""

    @tool(effect=effect)
    def blocks() -> None:
        """Block."""
        started.append(True)
        time.sleep(60)

    started: list[bool] = []
    async with bench.worker(app_of(blocks)):
        run = await bench.start(uses(("blocks", {})), says())
        await wait_until(lambda: started, 20, what="the tool")
        assert await _cancelled_in(run) < 12
    assert run.result is not None
    assert run.result.in_doubt == (() if effect == "read" else ("1.1",))


async def test_cancel_from_the_temporal_ui_ends_canceled(bench: Bench) -> None:
    """Temporal's own cancel leads to the same clean end, and Temporal shows Canceled."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[Fault(hold_s=600)]))
        await wait_until(lambda: run.requests, 20, what="the request")
        await run.handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await run.handle.result()
    described = await run.handle.describe()
    assert described.status is WorkflowExecutionStatus.CANCELED
    assert await run.last_activity_result() == "cancelled"


async def test_a_cancel_that_comes_first_wins(bench: Bench) -> None:
    """A run that is cancelled before a worker sees it asks Claude nothing."""
    run = await bench.start(says())
    await run.handle.signal("cancel", {"reason": "a mistake"})
    async with bench.worker(app_of()):
        result = await run.ended()
    assert (result.outcome, run.requests) == ("cancelled", [])
    assert "a mistake" in result.detail


@pytest.mark.field("C20")
async def test_a_failed_run_stays_failed(bench: Bench) -> None:
    """No workflow retry: after a refusal the tools are not run again, nor by a second start."""
    ran: list[bool] = []

    @tool
    async def act() -> str:
        """Act."""
        ran.append(True)
        return "acted"

    step = says(faults=[Fault(status=400)], faults_forever=True)
    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), step)
        await run.failed()
    assert ran == [True]
    newest = await bench.temporal.get_workflow_handle(run.name).describe()
    assert newest.run_id == run.handle.first_execution_run_id


@pytest.mark.field("C20")
async def test_a_retry_policy_or_cron_is_refused(bench: Bench) -> None:
    """Repeats of a workflow share its idempotency keys, so they are refused before any step."""
    async with bench.worker(app_of()):
        handle = await bench.temporal.start_workflow(
            WORKFLOW,
            {"prompt": "go", "agent": "tester"},
            id=f"run-{uuid.uuid4().hex[:12]}",
            task_queue=bench.queue,
            cron_schedule="@every 1s",
        )
        await handle.signal("cancel")
        history = handle.fetch_history_events(wait_new_event=True)
        async for event in history:
            if event.HasField("workflow_execution_failed_event_attributes"):
                message = event.workflow_execution_failed_event_attributes.failure.message
                assert "cron" in message
                break
        await handle.terminate()


@tool(effect="read")
async def strict(number: int) -> str:
    """Take one number."""
    return str(number)


@pytest.mark.field("C21")
@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("strict", {}, "number"),
        ("strict", {"number": "five"}, "five"),
        ("strict", {"number": 1, "extra": 2}, "extra"),
        ("absent", {}, "no tool 'absent'"),
    ],
)
async def test_a_call_that_cannot_run_is_told_to_the_model(
    bench: Bench, name: str, given: dict[str, Any], told: str
) -> None:
    """Unknown tools and inputs that break the schema: an error result at once, nothing runs."""
    run = await bench.run(app_of(strict), uses((name, given)), says())
    block = results_in(run)[0]
    assert block["is_error"]
    assert told in block["content"]
    assert await run.activities() == ["begin", "call_claude", "call_claude", "end"]


@pytest.mark.field("C21")
async def test_a_network_error_is_retried_with_the_same_key_and_not_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ConnectionError once, then it works; always, and the call ends after bounded requests."""
    monkeypatch.setattr(tools, "_MOST_REQUESTS", 3)
    keys: dict[str, list[str]] = {"once": [], "always": []}

    @tool(effect="keyed")
    async def send(how: str, ctx: ToolContext) -> str:
        """Send."""
        keys[how].append(ctx.idempotency_key)
        if how == "always" or len(keys[how]) == 1:
            raise ConnectionError("reset by peer")
        return "sent"

    step = uses(("send", {"how": "once"}), ("send", {"how": "always"}))
    run = await bench.run(app_of(send), step, says())
    blocks = results_in(run)
    assert blocks[0]["content"] == "sent"
    assert "OUTCOME UNKNOWN" in blocks[1]["content"]
    assert "3 requests; the last said: ConnectionError: reset by peer" in blocks[1]["content"]
    assert [len(set(used)) for used in keys.values()] == [1, 1]
    assert [len(used) for used in keys.values()] == [2, 3]


class Odd(BaseModel):
    """Values that JSON has no words for."""

    names: set[str]
    raw: bytes
    when: datetime
    price: Decimal
    big: int
    odd: float
    nested: Any


ODD = Odd(
    names={"b", "a"},
    raw=b"\xff",
    when=datetime(2026, 11, 29, tzinfo=UTC),
    price=Decimal("0.10"),
    big=2**60,
    odd=float("nan"),
    nested={"deep": {1, 2}, "raw": b"\xfe"},
)


@tool(effect="keyed")
async def odd() -> Odd:
    """Return odd values."""
    return ODD


@pytest.mark.field("C23")
async def test_odd_values_reach_the_model_as_stable_text(bench: Bench) -> None:
    """The text is made once, before recording: the same for a cold worker, in order, legal JSON."""
    first = await bench.run(app_of(odd), uses(("odd", {})), says())
    second = await bench.run(app_of(odd), uses(("odd", {})), says())
    told = results_in(first)[0]["content"]
    assert told == results_in(second)[0]["content"]
    assert all(text in told for text in ("0.10", str(2**60), "2026-11-29"))
    assert told.index('"a"') < told.index('"b"')


@pytest.mark.field("D14")
@pytest.mark.parametrize("effect", ["keyed", "at_most_once"])
async def test_a_result_that_cannot_be_stored_repeats_no_effect(bench: Bench, effect: Any) -> None:
    """One line only: a value that JSON cannot hold is stored as text, and the call is done."""
    lines: list[str] = []

    @tool(effect=effect)
    async def write() -> dict[str, Any]:
        """Write a line."""
        lines.append("line")
        return {"ids": {1, 2}, "raw": b"\xff", "x": float("nan")}

    run = await bench.run(app_of(write), uses(("write", {})), says())
    assert lines == ["line"]
    assert not results_in(run)[0].get("is_error", False)
    assert run.result is not None
    assert run.result.in_doubt == ()


@pytest.mark.parametrize("size", [10_000_000])
async def test_a_huge_result_is_bounded_and_the_run_goes_on(bench: Bench, size: int) -> None:
    """Ten megabytes from a tool: the model gets a part and is told how much was left out."""

    @tool
    async def flood() -> str:
        """Return much."""
        return "x" * size

    run = await bench.run(app_of(flood), uses(("flood", {})), says())
    told = results_in(run)[0]["content"]
    assert len(told) < 100_000
    assert f"{size:,}" in told or "left out" in told


async def test_several_steps_in_a_row_that_all_fail_end_the_run(bench: Bench) -> None:
    """A model that repeats a call that cannot work is stopped by `limit_repeats`."""
    step = uses(("absent", {}))
    run = await bench.run(app_of(), *[step] * 12)
    assert run.result is not None
    assert (run.result.outcome, run.result.steps) == ("limit_repeats", 5)


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        ({"max_steps": 2}, "limit_steps"),
        ({"max_cost_usd": "0.0000001"}, "limit_cost"),
        ({"max_tokens": 1}, "limit_tokens"),
        ({"max_time_s": 0.001}, "limit_time"),
    ],
)
async def test_every_limit_ends_a_run_by_its_name(
    bench: Bench, limits: dict[str, Any], outcome: str
) -> None:
    """The loop ends: each limit has an outcome of its own, with the spend so far."""
    run = await bench.run(app_of(strict), *[uses(("strict", {"number": 1}))] * 4, **limits)
    assert run.result is not None
    assert run.result.outcome == outcome
    assert run.result.detail


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [
        ("end_turn", "completed"),
        ("stop_sequence", "completed"),
        ("max_tokens", "max_tokens"),
        ("refusal", "refused"),
        ("model_context_window_exceeded", "context_exceeded"),
        ("brand_new_reason", "unknown_stop"),
    ],
)
async def test_every_stop_reason_has_an_outcome_and_runs_no_tool(
    bench: Bench, stop: str, outcome: str
) -> None:
    """A tool call in a reply that did not stop for tool use never runs, and the result says why."""
    step = uses(("strict", {"number": 1}), stop_reason=stop)
    run = await bench.run(app_of(strict), step)
    assert run.result is not None
    assert run.result.outcome == outcome
    assert run.result.detail
    assert set(await run.activities()) == {"begin", "call_claude", "end"}


async def test_a_paused_turn_goes_on_without_a_user_message(bench: Bench) -> None:
    """`pause_turn`: the assistant's turn is sent back unchanged and continued."""
    block: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {},
    }
    run = await bench.run(app_of(), Step(content=[block], stop_reason="pause_turn"), says())
    assert run.result is not None
    assert (run.result.outcome, run.result.steps) == ("completed", 2)
