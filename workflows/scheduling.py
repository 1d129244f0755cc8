"""A run's activities: what each is told, and what is done when one cannot be done as it is."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from onward import messages as m
from onward import names

from .budget import rest
from .labels import after, call_told
from .refilling import refilling
from .running import (
    FIXED_TAKEOVER_S,
    GRACE_S,
    LONG_S,
    now_ms,
    run_activity,
    run_ref,
    takeover_s,
)
from .state import RunState
from .stops import gave_up, kind_of

_SHORT_CACHE_S = 240.0
"""The API keeps a prefix for five minutes, less what a request takes to begin."""
_SOON = RetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    maximum_interval=timedelta(seconds=2),
    maximum_attempts=8,
)
"""While somebody waits: and where no worker can judge an edit, the call is to be denied instead."""
_REDOS = 5
"""Of one step before it is given up: more would find the same."""


async def begin(state: RunState) -> m.Opening:
    """Freeze what stays fixed for the whole run, and take the witness."""
    given = m.BeginInput(run=run_ref(state), request=_without_prompt(state), witness=state.witness)
    summary = f"freeze {state.request.agent}'s prompt and tools"
    return await run_activity(state, names.BEGIN, given, m.Opening, summary, limit_s=GRACE_S)


async def fork(state: RunState, parent: m.Fork) -> m.Carried:
    """Copy another run's conversation, to go on from there."""
    given = m.ForkInput(
        run=run_ref(state),
        request=_without_prompt(state),
        has_prompt=bool(state.request.prompt),
        witness=state.witness,
    )
    summary = f"copy the conversation of {parent.workflow_id}"
    return await run_activity(state, names.FORK, given, m.Carried, summary, limit_s=LONG_S)


def _without_prompt(state: RunState) -> m.RunRequest:
    # A byte of conversation enters a workflow run's history once.
    return state.request.model_copy(update={"prompt": ""})


async def carry(state: RunState) -> m.Segment:
    """Make a segment of what this workflow run's history tells."""
    given, summary = m.CarryInput(run=run_ref(state)), "pack the conversation, to continue as new"
    return await run_activity(state, names.CARRY, given, m.Segment, summary, limit_s=LONG_S)


async def ask_claude(state: RunState, ids: Iterator[str], compact: m.Compacting) -> m.ClaudeReply:
    """Ask Claude for the next reply; refill the ledger, or redo the step, where that helps.

    Each try of the step has the next of `ids`; what it cost is counted here, and nowhere else.
    Raises `ActivityError` when it cannot be done.
    """
    for redos, step in enumerate(ids):
        state.asking = step
        try:
            reply = await refilling(state, partial(_ask_once, state, step, compact))
        except ActivityError as error:
            state.gave_up(gave_up(error))
            if kind_of(error) != "mismatch" or redos == _REDOS:
                raise
        else:
            # At once: what the run does next may end it, by a cancel or a limit.
            state.spent(reply)
            return reply
    raise AssertionError("unreachable: step ids have no end")


async def _ask_once(state: RunState, step: str, compact: m.Compacting) -> m.ClaudeReply:
    given = _claude_input(state, step, compact)
    what = f"step {step}: a summary" if compact == "now" else f"step {step}"
    summary = after(what, state.told)
    return await run_activity(
        state, names.CALL_CLAUDE, given, m.ClaudeReply, summary, limit_s=LONG_S
    )


def _claude_input(state: RunState, step: str, compact: m.Compacting) -> m.ClaudeInput:
    opening, head, witness = state.opening, state.head, state.witness
    if opening is None or head is None or witness is None:
        raise ValueError("found no opening; expected `begin` to have run before the first step")
    return m.ClaudeInput(
        run=run_ref(state),
        agent=state.request.agent,
        step=step,
        head=head,
        additions=() if compact == "now" else state.next_turn,
        witness=witness,
        takeover_s=opening.takeover_s,
        workspace=state.request.workspace,
        reads=opening.reads_in_step,
        compact=compact,
        context=state.context,
        rest=rest(state, now_ms()),
        max_tokens=state.max_tokens,
        long_cache=state.longest_gap_s > _SHORT_CACHE_S,
    )


async def run_tool(state: RunState, reply: m.ClaudeReply, index: int) -> m.CallResult:
    """Run one call of a reply through the ledger, refilling it where it lost the reply.

    Raises `ActivityError` when the call cannot be run.
    """
    call, request = reply.calls[index], state.request
    given = reply.tool_input(
        index, run_ref(state), request.agent, request.workspace, takeover_s(state)
    )
    given = given.model_copy(update={"edit": state.edits.get(call.call, "")})
    summary, limit_s = call_told(call), call.timeout_s + GRACE_S
    return await refilling(
        state,
        lambda: run_activity(state, call.tool, given, m.CallResult, summary, limit_s=limit_s),
    )


async def resolve(state: RunState, doubt: m.Doubt, said: m.Resolve) -> m.Resolution:
    """Record what a person says of a call in doubt.

    Raises `ActivityError` when it cannot be taken.
    """
    given = _resolve_input(state, doubt, said)
    summary = f"{given.call} {said.outcome}, says {said.by or 'somebody'}"
    return await refilling(
        state,
        lambda: run_activity(state, names.RESOLVE, given, m.Resolution, summary, limit_s=GRACE_S),
    )


def _resolve_input(state: RunState, doubt: m.Doubt, said: m.Resolve) -> m.ResolveInput:
    call, takeover = doubt.call, takeover_s(state)
    heard_ms = now_ms()
    return m.ResolveInput(
        run=run_ref(state),
        call=call.call,
        fingerprint=call.fingerprint,
        effect=call.effect,
        at_ms=doubt.at_ms,
        outcome=said.outcome,
        note=said.note,
        by=said.by,
        # What an attempt sent lands while it runs; what a lost one sends, while its lease lasts.
        quarantine_ms=int((call.timeout_s + takeover) * 1000),
        # Temporal keeps an update until a worker comes: heard in time, it may be said too early.
        said_ms=heard_ms if said.said_ms is None else min(said.said_ms, heard_ms),
        business=call.business,
        witness=doubt.witness,
        takeover_s=takeover,
    )


async def edit(
    state: RunState, call: m.PreparedCall, edit: str, witness: m.Witness, by: str
) -> m.Edited:
    """Judge the input that a person gives a call instead of Claude's.

    Raises `ActivityError` when that cannot be done.
    """
    given = m.EditInput(
        run=run_ref(state),
        agent=state.request.agent,
        call=call,
        edit=edit,
        witness=witness,
        takeover_s=takeover_s(state),
    )
    summary = f"{call.call} {call.tool} as {by or 'somebody'} edited it"
    return await refilling(
        state,
        lambda: run_activity(
            state,
            names.EDIT,
            given,
            m.Edited,
            summary,
            limit_s=GRACE_S,
            retry=_SOON,
        ),
    )


async def end(state: RunState, result: m.RunResult) -> m.RunResult:
    """Tell the ledger that the run is over; the activity's result holds the run's."""
    given = m.EndInput(
        run=run_ref(state), result=result, asking=state.asking, doubts=_doubts(state)
    )
    return await run_activity(
        state,
        names.END,
        given,
        m.RunResult,
        after(f"outcome: {result.outcome}", state.told),
        limit_s=GRACE_S,
        heartbeat_s=FIXED_TAKEOVER_S,
    )


def _doubts(state: RunState) -> tuple[m.Doubt, ...]:
    """Doubts about calls of a step that a cancel cut off."""
    reply = state.reply
    if reply is None:
        return ()
    cut_off = (call for call in reply.calls if call.call in state.in_doubt)
    unasked = (m.Doubt(call=call, witness=reply.witness, at_ms=0) for call in cut_off)
    return (*unasked, *state.doubts.values())
