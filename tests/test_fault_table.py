"""The fault table: what each way of going wrong leads to, wherever in a run it strikes.

How long is waited is seen in two tests of its own; in the others every wait is a moment.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pytest
from agent_runs import MODEL, Bench, Run, app_of, says, uses
from one_request import made_of
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetActivityRequest
from temporalio.worker import UnsandboxedWorkflowRunner

from activities.requests import wait_s
from onward import Agent, App, Limits, tool
from onward.testing import wait_until
from onward.testing.messages_api import ErrorDetail, Fault, Script, ScriptedAPI, Step

POLICY = 4
"""Requests that a step may send where the fault never ends."""

Kind = Literal["refused", "lost", "elsewhere", "stops", "too_long"]


@dataclass(frozen=True)
class Row:
    """One fault, what it means, and how long is waited after it; None: the usual backoff."""

    fault: Fault
    kind: Kind
    delay_s: float | None = None


def said(status: int, kind: str, words: str, code: str = "", **more: object) -> Fault:
    """A refusal in the API's own words."""
    details = {"error_code": code} if code else None
    error = ErrorDetail(type=kind, message=words, details=details)
    return Fault.model_validate({"status": status, "error": error, **more})


HOUR_S = 3600.0
CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing"
CAP = said(429, "rate_limit_error", "Spent.", "enforced_spend_limit_reached")
TABLE = {
    "408": Row(Fault(status=408), "refused"),
    "409": Row(Fault(status=409), "refused"),
    "429": Row(Fault(status=429, retry_after=0), "refused", 0.0),
    "429 unsaid": Row(Fault(status=429), "refused", 20.0),
    "500": Row(Fault(status=500), "refused"),
    "502 page": Row(Fault(status=502, html=True), "refused"),
    "503 when": Row(Fault(status=503, headers={"retry-after-ms": "2"}), "refused", 0.002),
    "529": Row(Fault(status=529, headers={"x-should-retry": "true"}), "refused"),
    "400 retry": Row(Fault(status=400, headers={"x-should-retry": "true"}), "refused"),
    "overload at once": Row(Fault(stream_error="overloaded_error", after_events=0), "refused"),
    "402": Row(Fault(status=402), "refused", HOUR_S),
    "credit": Row(said(400, "invalid_request_error", CREDIT), "refused", HOUR_S),
    "cap": Row(CAP, "refused", HOUR_S),
    "reset": Row(Fault(cut=True, after_events=0), "lost"),
    "cut": Row(Fault(cut=True, after_events=4), "lost"),
    "early end": Row(Fault(end_without_stop=True, after_events=4), "lost"),
    "no stop": Row(Fault(end_without_stop=True), "lost"),
    "broken JSON": Row(Fault(broken_json=True), "lost"),
    "overload": Row(Fault(stream_error="overloaded_error"), "lost"),
    "error inside": Row(Fault(stream_error="api_error"), "lost"),
    "text": Row(Fault(text_plain=True), "elsewhere"),
    "shape": Row(Fault(other_shape=True), "elsewhere"),
    "page": Row(Fault(status=200, html=True), "elsewhere"),
    "400": Row(Fault(status=400), "stops"),
    "401": Row(Fault(status=401), "stops"),
    "403": Row(Fault(status=403), "stops"),
    "404": Row(Fault(status=404), "stops"),
    "404 page": Row(Fault(status=404, html=True), "stops"),
    "422": Row(Fault(status=422), "stops"),
    "529 final": Row(Fault(status=529, headers={"x-should-retry": "false"}), "stops"),
    "refused inside": Row(Fault(stream_error="permission_error"), "stops"),
    "413": Row(Fault(status=413), "too_long"),
    "long": Row(said(400, "invalid_request_error", "prompt is too long: 9 > 8"), "too_long"),
}
RUNS = (
    *("429", "502 page", "529", "cap", "cut", "no stop", "broken JSON", "overload", "text"),
    *("400", "404", "404 page", "529 final", "refused inside", "413"),
)
"""What is tried in short: the other rows differ from these only by the answer's words."""
TIMES = (1, 10, None)
"""None: for ever."""
PLAIN = UnsandboxedWorkflowRunner()
"""As workers have it: what the sandbox and replays show, other tests see."""
ERROR_WAITS = ("onward.claude_errors._NO_HINT_429_S", "onward.claude_errors._FOR_A_PERSON_S")
WHERE = ("first step", "middle", "after a tool")


@tool
async def act() -> str:
    """Act."""
    return "acted"


def steps(where: str, faults: Sequence[Fault], *, forever: bool) -> list[Step]:
    """A conversation of three steps, the faults in one of them."""
    talk = [says("Hm.", stop_reason="pause_turn"), uses(("act", {})), says()]
    place = WHERE.index(where)
    struck = {"faults": faults, "faults_forever": forever}
    talk[place] = talk[place].model_copy(update=struck)
    return talk


def most(row: Row, where: str) -> int:
    """Requests that are sent for the step if the fault never ends."""
    if row.kind == "elsewhere" and where == "first step":
        return 3
    return 1 if row.kind in {"stops", "too_long"} else POLICY


def passes(row: Row, where: str, times: int | None) -> bool:
    """Whether the run gets over the fault."""
    return times is not None and (most(row, where) == POLICY or times < most(row, where))


async def check(bench: Bench, name: str, where: str, times: int | None) -> None:
    """Run the conversation to its end, and count."""
    row = TABLE[name]
    talk = steps(where, [row.fault] * (times or 1), forever=times is None)
    run = await bench.start(*talk, agent="patient" if times else "brief")
    good = passes(row, where, times)
    result = await (run.ended() if good or row.kind == "too_long" else run.failed())
    place = WHERE.index(where)
    asked = [entry.step for entry in run.requests]
    if good:
        assert (result.outcome, result.steps) == ("completed", 3), name
        assert (asked.count(place), len(asked)) == ((times or 0) + 1, (times or 0) + 3), name
    else:
        outcome = "context_exceeded" if row.kind == "too_long" else "failed"
        assert (result.outcome, result.steps) == (outcome, place), name
        assert (asked.count(place), len(asked)) == (most(row, where), place + most(row, where)), (
            name
        )
        assert "\n" not in result.detail, name
    assert result.spend.requests == len(asked), name


@pytest.fixture
async def served(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncGenerator[Bench]:
    """Serve runs with a worker that waits a moment for everything."""
    caplog.set_level(logging.ERROR)  # a traceback for each attempt takes longer than the attempt
    for wait in ("activities.requests._LONGEST_WAIT_S", *ERROR_WAITS):
        monkeypatch.setattr(wait, 0.001)
    brief = Limits(max_requests_per_step=POLICY)
    app = App(
        Agent("patient", model=MODEL, tools=[act], context="stop"),
        Agent("brief", model=MODEL, tools=[act], context="stop", limits=brief),
    )
    async with bench.worker(app, max_cached_workflows=50, unsandboxed_workflow_runner=PLAIN):
        yield bench


@pytest.mark.field("B04")
@pytest.mark.parametrize("turn", range(3))
async def test_requests_and_outcome(served: Bench, turn: int) -> None:
    """A fault that passes is waited out; one that stays ends the run after a known number.

    The three turns take each fault to each place, and let it strike each number of times.
    """
    cases = [
        (name, WHERE[turn], TIMES[(turn + number) % len(TIMES)]) for number, name in enumerate(RUNS)
    ]
    await asyncio.gather(*(check(served, *case) for case in cases))


@pytest.mark.long
@pytest.mark.field("B04")
@pytest.mark.parametrize("name", TABLE)
async def test_requests_and_outcome_of_all(served: Bench, name: str) -> None:
    """The same of every fault, each number of times in each place."""
    cases = [(name, where, times) for where in WHERE for times in TIMES]
    await asyncio.gather(*(check(served, *case) for case in cases))


async def test_few_replies_may_be_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them may be billed in full, so a step loses a dozen, whatever the run allows."""
    monkeypatch.setattr("activities.requests._LONGEST_WAIT_S", 0.001)
    async with bench.worker(app_of()):
        fault = Fault(cut=True, after_events=4)
        run = await bench.start(says(faults=[fault], faults_forever=True))
        result = await run.failed()
    assert (len(run.requests), result.spend.lost_requests) == (12, 12)
    assert "12 replies to step 1 were lost on their way" in result.detail


@pytest.mark.field("B04")
async def test_posture_and_delay() -> None:
    """What is waited after each fault, what it may have cost, and that its failure says enough."""
    scripts = {
        name.replace(" ", "-"): Script(steps=[says(faults=[row.fault], faults_forever=True)])
        for name, row in TABLE.items()
    }
    async with ScriptedAPI(scripts) as api:
        for name, row in TABLE.items():
            await check_posture(api, name, row)


async def check_posture(api: ScriptedAPI, name: str, row: Row) -> None:
    """Send one request that meets the fault of a row, and look at what is made of it."""
    posture = await made_of(api.url, f"[script:{name.replace(' ', '-')}]")
    then = {"stops": "stop", "too_long": "context_exceeded"}.get(row.kind, "retry")
    assert (posture.then, posture.sent) == (then, True), name
    assert posture.refused == (row.kind != "lost" and name != "refused inside"), name
    assert wait_s(3, posture.delay_s) == (2.0 if row.delay_s is None else row.delay_s), name
    assert "\n" not in posture.message
    assert row.fault.status in (None, 200) or str(row.fault.status) in posture.message
    nameless = row.kind == "elsewhere" or row.fault.html or name == "reset"
    assert nameless or "(request req_01" in posture.message


def test_an_outage_of_an_hour_is_waited_out() -> None:
    """The wait doubles up to a minute; a server that names ever the same moment is not rushed."""
    assert [wait_s(tries, None) for tries in range(1, 10)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert [wait_s(tries, 1.0) for tries in (1, 10, 11, 13)] == [1.0, 1.0, 1.0, 2.0]
    for named_s in (None, 0.0):
        policy = Limits().max_requests_per_step
        assert sum(wait_s(tries, named_s) for tries in range(1, policy)) > HOUR_S


async def test_temporal_waits_as_long_as_the_answer_says(bench: Bench) -> None:
    """The delay is Temporal's, so it is in the UI, holds no worker and outlives all of them."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[Fault(status=503, retry_after=70)]))
        assert await wait_until(partial(waiting_s, run), 20, what="a wait") == pytest.approx(
            70, abs=0.1
        )
        assert "Claude answered 503 api_error" in await run.failing_activity()
        await run.handle.terminate("seen")


async def test_who_has_paid_need_not_wait_out_the_hour(bench: Bench) -> None:
    """The run says that a person must act, and goes on as soon as its activity is reset."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[CAP]))
        assert await wait_until(partial(waiting_s, run), 20, what="a wait") == pytest.approx(HOUR_S)
        assert "A person must raise the limit" in await run.failing_activity()
        await reset_activity(run)
        assert (await run.ended()).outcome == "completed"


async def reset_activity(run: Run) -> None:
    """Ask at once, as a person does who has paid: `temporal activity reset`."""
    client = run.bench.temporal
    (pending,) = (await run.handle.describe()).raw_description.pending_activities
    await client.workflow_service.reset_activity(
        ResetActivityRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=run.name),
            id=pending.activity_id,
        )
    )


async def waiting_s(run: Run) -> float:
    """Seconds from the last attempt of the request to the next; 0 if none has failed."""
    pending: Any = (await run.handle.describe()).raw_description.pending_activities
    found = [each.current_retry_interval.ToTimedelta() for each in pending if each.attempt > 1]
    return float(found[0].total_seconds()) if found else 0.0
