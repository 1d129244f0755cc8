"""How a run's activities are scheduled, and what is done when one finds the ledger incomplete."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityCancellationType

from onward import messages as m
from onward import names
from workflows.state import RunState
from workflows.stops import gave_up, kind_of

T = TypeVar("T", bound=m.Wire)

_REDOS = 5
"""Of one step before it is given up: more would find the same."""
_REFILLS_AT_ONCE = 5
_LONGEST_PAUSE_S = 60
"""Between more refills of one step than that: a Redis that loses everything at once is mended by
people, and until then the run stays open.
"""
_GRACE_S = 60.0
"""Seconds that an activity may take beyond its tool's own time limit, to record what happened."""
_CLAUDE_S = 3600.0
"""Longer than any reply streams; silence on the wire ends a request much sooner."""
# Attempts are not limited here: a worker's death, a busy claim or a Redis that is away must not use
# up a step. What is bounded is requests sent, counted in the ledger (architecture.md, a step, 2).
_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=20)
)
_BEFORE_BEGIN_S = 10.0
_SUMMARY_BYTES = 180
"""Of an activity's summary. Temporal takes 400 of its JSON, where a quote counts double."""


def run_ref(state: RunState) -> m.RunRef:
    """Name the run that schedules an activity."""
    info = workflow.info()
    return m.RunRef(
        workflow_id=info.workflow_id,
        first_run_id=info.first_execution_run_id,
        run_id=info.run_id,
        original_run_id=info.original_execution_run_id or info.run_id,
        reset_lineage=state.reset_lineage,
        deployment=state.request.deployment or info.namespace,
    )


async def begin(state: RunState) -> m.Opening:
    """Freeze what stays fixed for the whole run, and take the witness."""
    given = m.BeginInput(run=run_ref(state), request=_without_prompt(state), witness=state.witness)
    summary = f"freeze {state.request.agent}'s prompt and tools"
    return await _activity(state, names.BEGIN, given, m.Opening, summary, _BEFORE_BEGIN_S, _GRACE_S)


async def fork(state: RunState, parent: m.Fork) -> m.Carried:
    """Copy another run's conversation, to go on from there."""
    given = m.ForkInput(
        run=run_ref(state),
        request=_without_prompt(state),
        has_prompt=bool(state.request.prompt),
        witness=state.witness,
    )
    summary = f"copy the conversation of {parent.workflow_id}"
    return await _activity(state, names.FORK, given, m.Carried, summary, _BEFORE_BEGIN_S, _CLAUDE_S)


def _without_prompt(state: RunState) -> m.RunRequest:
    # A byte of conversation enters a workflow run's history once.
    return state.request.model_copy(update={"prompt": ""})


async def carry(state: RunState) -> m.Segment:
    """Make a segment of what this workflow run's history tells."""
    given, takeover_s = m.CarryInput(run=run_ref(state)), _takeover_s(state)
    summary = "pack the conversation, to continue as new"
    return await _activity(state, names.CARRY, given, m.Segment, summary, takeover_s, _CLAUDE_S)


async def ask_claude(state: RunState, ids: Iterator[str], compact: m.Compacting) -> m.ClaudeReply:
    """Ask Claude for the next reply; refill the ledger, or redo the step, where that helps.

    Each try of the step has the next of `ids`. Raises `ActivityError` when it cannot be done.
    """
    step, refills, redos = next(ids), 0, 0
    while True:
        state.asking = step
        try:
            return await _ask_once(state, step, compact)
        except ActivityError as error:
            kind = kind_of(error)
            if kind == "ledger_gap":
                refills += 1
                await refill(state, refills)
            elif kind == "mismatch" and redos < _REDOS:
                state.gave_up(gave_up(error))
                step, redos = next(ids), redos + 1
            else:
                raise


async def _ask_once(state: RunState, step: str, compact: m.Compacting) -> m.ClaudeReply:
    opening, head, witness = state.opening, state.head, state.witness
    if opening is None or head is None or witness is None:
        raise ValueError("found no opening; expected `begin` to have run before the first step")
    given = m.ClaudeInput(
        run=run_ref(state),
        agent=state.request.agent,
        step=step,
        head=head,
        additions=() if compact == "now" else state.additions,
        witness=witness,
        takeover_s=opening.takeover_s,
        workspace=state.request.workspace,
        compact=compact,
        context=state.context,
    )
    summary = f"step {step}: a summary" if compact == "now" else f"step {step}"
    return await _activity(
        state, names.CALL_CLAUDE, given, m.ClaudeReply, summary, opening.takeover_s, _CLAUDE_S
    )


async def run_tool(state: RunState, reply: m.ClaudeReply, index: int) -> m.CallResult:
    """Run one call of a reply through the ledger, refilling it where it lost the reply.

    The call's witness stays the one of its reply, whatever is refilled meanwhile (ledger.md, 1.3).
    Raises `ActivityError` when the call cannot be run.
    """
    call, takeover_s = reply.calls[index], _takeover_s(state)
    given = m.ToolInput(
        run=run_ref(state),
        agent=state.request.agent,
        step=reply.head.step,
        index=index,
        call=call.call,
        fingerprint=call.fingerprint,
        effect=call.effect,
        key=call.key,
        workspace=state.request.workspace,
        witness=reply.witness,
        takeover_s=takeover_s,
        timeout_s=call.timeout_s,
        business=call.business,
    )
    summary, limit_s = f"{call.call} {call.summary}", call.timeout_s + _GRACE_S
    return await _refilling(
        state,
        lambda: _activity(state, call.tool, given, m.CallResult, summary, takeover_s, limit_s),
    )


async def resolve(state: RunState, doubt: m.Doubt, said: m.Resolve) -> m.Resolution:
    """Record what a person says of a call in doubt.

    Raises `ActivityError` when it cannot be taken.
    """
    call, takeover_s = doubt.call, _takeover_s(state)
    heard_ms = int(workflow.now().timestamp() * 1000)
    given = m.ResolveInput(
        run=run_ref(state),
        call=call.call,
        fingerprint=call.fingerprint,
        effect=call.effect,
        at_ms=doubt.at_ms,
        outcome=said.outcome,
        note=said.note,
        by=said.by,
        # What an attempt sent lands while it runs; what a lost one sends, while its lease lasts.
        quarantine_ms=int((call.timeout_s + takeover_s) * 1000),
        # Temporal keeps an update until a worker comes: heard in time, it may be said too early.
        said_ms=heard_ms if said.said_ms is None else min(said.said_ms, heard_ms),
        business=call.business,
        witness=doubt.witness,
        takeover_s=takeover_s,
    )
    summary = f"{call.call} {said.outcome}, says {said.by or 'somebody'}"
    return await _refilling(
        state,
        lambda: _activity(state, names.RESOLVE, given, m.Resolution, summary, takeover_s, _GRACE_S),
    )


async def _refilling(state: RunState, run: Callable[[], Awaitable[T]]) -> T:
    """Run an activity; where it finds the ledger incomplete, refill and run it again."""
    for refills in count(1):
        try:
            return await run()
        except ActivityError as error:
            if kind_of(error) != "ledger_gap":
                raise
            await refill(state, refills)
    raise AssertionError("unreachable: counting has no end")


async def refill(state: RunState, times: int) -> None:
    """Rebuild the run's records in Redis from its own history, and take a new witness.

    `times`: how many refills this makes for the same activity.
    """
    if state.opening is None or state.witness is None:
        return
    if times > _REFILLS_AT_ONCE:
        pause_s = min(2 ** (times - _REFILLS_AT_ONCE), _LONGEST_PAUSE_S)
        await workflow.sleep(pause_s, summary="the ledger loses what it is given")
    given = m.RefillInput(run=run_ref(state), witness=state.witness, head=state.head)
    takeover_s = state.opening.takeover_s
    refilled = await _activity(
        state,
        names.REFILL,
        given,
        m.Refilled,
        "rebuild the ledger from history",
        takeover_s,
        _CLAUDE_S,
    )
    state.witness = refilled.witness
    # Where it ended as a cancel arrived, that is spent; and what it was for must not start.
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


async def end(state: RunState, result: m.RunResult) -> m.RunResult:
    """Tell the ledger that the run is over; the activity's result holds the run's."""
    given = m.EndInput(run=run_ref(state), result=result, asking=state.asking)
    summary = f"outcome: {result.outcome}"
    return await _activity(state, names.END, given, m.RunResult, summary, _BEFORE_BEGIN_S, _GRACE_S)


def _takeover_s(state: RunState) -> float:
    return state.opening.takeover_s if state.opening else _BEFORE_BEGIN_S


async def _activity(  # noqa: PLR0917  (each has a meaning of its own)
    state: RunState,
    name: str,
    given: m.Wire,
    result: type[T],
    summary: str,
    heartbeat_s: float,
    limit_s: float,
) -> T:
    state.working += 1
    try:
        done: Any = await workflow.execute_activity(
            name,
            given,
            result_type=result,
            summary=summary.encode(errors="replace")[:_SUMMARY_BYTES].decode(errors="ignore"),
            start_to_close_timeout=timedelta(seconds=limit_s),
            heartbeat_timeout=timedelta(seconds=heartbeat_s),
            retry_policy=_RETRY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
    finally:
        state.working -= 1
        state.worked += 1
    return result.model_validate(done)
