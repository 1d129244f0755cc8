"""What a run's own history says, read from the server alone: no worker needs to be there.

History is the truth about a run (docs/architecture.md), so how it ended, what it asked and what its
finished steps cost can be told of any run that Temporal still keeps.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionStartedEventAttributes
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client
from temporalio.exceptions import ActivityError, ChildWorkflowError

from onward.errors import PayloadError
from onward.messages import (
    Carried,
    ClaudeReply,
    ContextUse,
    GiveUp,
    Opening,
    RunRequest,
    RunResult,
    Spend,
)
from onward.names import BEGIN, CALL_CLAUDE, END, FORK
from onward.transcript import is_summary

RPC_TIMEOUT = timedelta(seconds=10)

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class RunKey:
    """One workflow run, exactly."""

    id: str
    run_id: str


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    result: RunResult
    spend_complete: bool = True
    """False: the run was cut off; `result.spend` holds only what its finished steps cost."""


@dataclass(frozen=True)
class Recorded:
    """What history holds of a run so far."""

    request: RunRequest | None = None
    opening: Opening | None = None
    """None: the run has not begun, or `begin` failed."""
    steps: int = 0
    spend: Spend = field(default_factory=Spend)
    """Of the steps that came to an end, also of those that were given up; a lower bound."""
    context: ContextUse | None = None
    """How full the context window was when Claude last answered."""
    task_failure: str = ""
    """Why the workflow's code failed on its worker, if that was the last thing it did."""


async def start_of(client: Client, key: RunKey) -> WorkflowExecutionStartedEventAttributes | None:
    """Read the first event of a workflow run. Raises `RPCError`."""
    first = await anext(_forwards(client, key, page_size=1), None)
    return first.workflow_execution_started_event_attributes if first else None


async def request_of(client: Client, key: RunKey) -> RunRequest | None:
    """Read what the workflow run was started with; None if that is not a RunRequest at all."""
    started = await start_of(client, key)
    return await request_in(client, started) if started else None


async def request_in(
    client: Client, started: WorkflowExecutionStartedEventAttributes
) -> RunRequest | None:
    """Read the same from the workflow run's first event."""
    return await _decoded(client, started.input, RunRequest)


async def recorded(client: Client, key: RunKey) -> Recorded:
    """Read the history of the newest workflow run, from what it was started with."""
    so_far, activities = Recorded(), dict[int, str]()
    async for event in _forwards(client, key, page_size=500):
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            name = event.activity_task_scheduled_event_attributes.activity_type.name
            activities[event.event_id] = name
        elif fold := _FOLDS.get(event.event_type):
            so_far = await fold(client, so_far, event, activities)
    return so_far


async def ended(client: Client, key: RunKey) -> Ended | None:
    """Say how the run ended; None while it is open.

    A run that was cut off (terminated, timed out by Temporal) never said how it ended: then the
    outcome is `failed`, says so, and its spend is what its finished steps cost.
    """
    events = _backwards(client, key)
    close = await anext(events, None)
    if close is None or close.event_type not in _CLOSES:
        return None
    found = await _said_at_close(client, close) or await _last(client, events, END, RunResult)
    if found is not None:
        return Ended(found)
    so_far = await recorded(client, key)
    cancelled = close.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
    result = RunResult(
        outcome="cancelled" if cancelled else "failed",
        detail=await _why_closed(client, close),
        steps=so_far.steps,
        spend=so_far.spend,
    )
    return Ended(result, spend_complete=False)


async def last_context(client: Client, key: RunKey) -> ContextUse | None:
    """Say how full the context window was when Claude last answered; None where that is gone."""
    with suppress(PayloadError):
        reply = await _last(client, _backwards(client, key), CALL_CLAUDE, ClaudeReply)
        if reply is not None:
            return reply.context
        request = await request_of(client, key)
        return request.carried.context if request and request.carried else None
    return None


# ---- the last events


async def _said_at_close(client: Client, close: HistoryEvent) -> RunResult | None:
    """Read the result of a completed run, or what the error of a failed one carries."""
    if close.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
        given = close.workflow_execution_completed_event_attributes.result
        return await _decoded(client, given, RunResult)
    failure = close.workflow_execution_failed_event_attributes.failure
    return await _decoded(client, failure.application_failure_info.details, RunResult)


async def _last(
    client: Client, events: AsyncIterator[HistoryEvent], activity: str, kind: type[Model]
) -> Model | None:
    """Find the result of the last finished activity of that name, going backwards."""
    results = dict[int, Payloads]()
    async for event in events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            done = event.activity_task_completed_event_attributes
            results[done.scheduled_event_id] = done.result
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            name = event.activity_task_scheduled_event_attributes.activity_type.name
            result = results.pop(event.event_id, None)
            if name == activity and result is not None:
                return await _decoded(client, result, kind)
    return None


async def _why_closed(client: Client, close: HistoryEvent) -> str:
    if close.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
        reason = close.workflow_execution_terminated_event_attributes.reason
        return f"it was terminated: {reason or 'no reason was given'}"
    if close.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
        return await failure_text(client, close.workflow_execution_failed_event_attributes.failure)
    return _CLOSES[close.event_type]


_CLOSES: dict[int, str] = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: "its result cannot be read",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "it failed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "it ran into a timeout set in Temporal",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "it was cancelled without a clean end",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "it was terminated",
}


async def failure_text(client: Client, failure: Failure) -> str:
    """Say what was raised; of an activity that failed, what the activity raised."""
    error: BaseException = await client.data_converter.decode_failure(failure)
    # Temporal's wrappers say "Activity task failed"; the sentence for people is inside them. What
    # is further inside, an SDK's own error, is for a log.
    while isinstance(error, ActivityError | ChildWorkflowError) and error.__cause__ is not None:
        error = error.__cause__
    return getattr(error, "message", "") or str(error)


def told(failure: Failure) -> Failure:
    """Return what an activity raised; the server wraps it if its traces are long, and cuts them."""
    wrapped = failure.HasField("server_failure_info") and failure.HasField("cause")
    return failure.cause if wrapped else failure


# ---- going through the events


async def _begun(
    client: Client, so_far: Recorded, event: HistoryEvent, _activities: dict[int, str]
) -> Recorded:
    given = event.workflow_execution_started_event_attributes.input
    request = await _decoded(client, given, RunRequest)
    carried = request.carried if request else None
    if carried is None:
        return replace(so_far, request=request)
    return Recorded(request, carried.opening, carried.steps, carried.spend, carried.context)


async def _activity_done(
    client: Client, so_far: Recorded, event: HistoryEvent, activities: dict[int, str]
) -> Recorded:
    done = event.activity_task_completed_event_attributes
    match activities.get(done.scheduled_event_id):
        case name if name == BEGIN:
            return replace(so_far, opening=await _decoded(client, done.result, Opening))
        case name if name == FORK:
            copied = await _decoded(client, done.result, Carried)
            return _with_copy(so_far, copied) if copied else so_far
        case name if name == CALL_CLAUDE:
            reply = await _decoded(client, done.result, ClaudeReply)
            return _with_reply(so_far, reply) if reply else replace(so_far, steps=so_far.steps + 1)
        case _:
            return so_far


def _with_copy(so_far: Recorded, copied: Carried) -> Recorded:
    return replace(so_far, opening=copied.opening, steps=copied.steps, context=copied.context)


def _with_reply(so_far: Recorded, reply: ClaudeReply) -> Recorded:
    step = reply.head.step
    return replace(
        so_far,
        # Its number: one that was asked again has replies that are no steps.
        steps=so_far.steps if is_summary(step) else int(step.partition(".")[0]),
        spend=so_far.spend + reply.spend,
        context=reply.context,
    )


async def _activity_failed(
    client: Client, so_far: Recorded, event: HistoryEvent, activities: dict[int, str]
) -> Recorded:
    failed = event.activity_task_failed_event_attributes
    if activities.get(failed.scheduled_event_id) != CALL_CLAUDE:
        return so_far
    last = await gave_up(client, failed.failure)
    return replace(so_far, spend=so_far.spend + last.spend) if last else so_far


async def gave_up(client: Client, failure: Failure) -> GiveUp | None:
    """Read what a step said that was given up; None where it said nothing of its spend."""
    return await _decoded(client, told(failure).application_failure_info.details, GiveUp)


async def _task_failed(
    client: Client, so_far: Recorded, event: HistoryEvent, _activities: dict[int, str]
) -> Recorded:
    failure = event.workflow_task_failed_event_attributes.failure
    return replace(so_far, task_failure=await failure_text(client, failure))


async def _task_done(
    _client: Client, so_far: Recorded, _event: HistoryEvent, _activities: dict[int, str]
) -> Recorded:
    return replace(so_far, task_failure="")


_FOLDS: dict[int, Callable[..., Any]] = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: _begun,
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: _activity_done,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: _activity_failed,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED: _task_failed,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED: _task_done,
}


async def _forwards(client: Client, key: RunKey, *, page_size: int) -> AsyncIterator[HistoryEvent]:
    request = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=key.id, run_id=key.run_id),
        maximum_page_size=page_size,
    )
    while True:
        page = await client.workflow_service.get_workflow_execution_history(
            request, timeout=RPC_TIMEOUT
        )
        for event in page.history.events:
            yield event
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token


async def _backwards(client: Client, key: RunKey) -> AsyncIterator[HistoryEvent]:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=key.id, run_id=key.run_id),
        maximum_page_size=50,
    )
    while True:
        page = await client.workflow_service.get_workflow_execution_history_reverse(
            request, timeout=RPC_TIMEOUT
        )
        for event in page.history.events:
            yield event
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token


async def read(client: Client, given: Payloads, model: type[Model]) -> Model:
    """Read the first payload.

    Raises PayloadError (its file is not here), and where it is none or another kind of thing
    IndexError, ValueError.
    """
    values: list[Any] = await client.data_converter.decode_wrapper(given, [model])
    return model.model_validate(values[0])


async def _decoded(client: Client, given: Payloads, model: type[Model]) -> Model | None:
    """Decode the first payload; None if there is none, or another kind of thing."""
    if not given.payloads:
        return None
    try:
        values = await client.data_converter.decode(given.payloads[:1], [model])
    except (ValidationError, ValueError, RuntimeError):
        return None
    return cast("Model", values[0])
