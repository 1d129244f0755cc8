"""The workflow of a run, and Temporal: schedule, take a result, continue as new, reset."""

from typing import Any

from ledger_model import Wit
from run_state import WAITING, Attempt, Case, Labelled, Phase, State, Told, Workflow

_NEW = 1000
"""Id of an attempt until the state is brought into its normal form."""
_CONTINUES: tuple[Phase, ...] = ("ask", "call", "next ask", "in doubt")


def workflow_steps(case: Case, state: State) -> Labelled:
    """Yield the steps of the workflow itself: progress may count on them."""
    me = state.attempt()
    if must_schedule(state):
        yield f"{state.workflow.phase} is scheduled", scheduled(case, state)
    if me is not None and me.told is not None:
        yield f"the workflow hears of {me.activity}: {me.told.kind}", _heard(state, me, me.told)


def temporal_steps(case: Case, state: State) -> Labelled:
    """Yield what Temporal does besides, and what a person does with it."""
    me, left, phase = state.attempt(), state.left, state.workflow.phase
    if me is not None and left.timeouts:
        yield f"{me.activity} {me.id} is given up", _given_up(case, state, me)
    if me is None and left.continues and phase in _CONTINUES:
        yield "continue-as-new", _continued(case, state)
    for point in state.points if left.resets else ():
        yield f"RESET to {point.phase}", _reset(case, state, point)


def must_schedule(state: State) -> bool:
    """Whether the workflow wants an activity and has none."""
    return state.workflow.attempt is None and state.workflow.phase not in WAITING


def scheduled(case: Case, state: State, earlier: Attempt | None = None) -> State:
    """Start an attempt of the activity that the phase wants; `earlier`: it is a retry of that."""
    workflow, phase = state.workflow, state.workflow.phase
    # A reset runs a pending activity again with its first input, which knows of no reset.
    knows = case.guards.pending_attempt_knows_of_reset or not workflow.just_reset
    me = Attempt(
        id=_NEW,
        activity=phase,
        witness=_witness(case, workflow),
        fp=workflow.decision if phase in ("call", "resolve") else None,
        lineage=earlier.lineage if earlier else workflow.lineage and knows,
        history=_history(workflow),
    )
    return state._replace(
        attempts=(*state.attempts, me),
        workflow=workflow._replace(attempt=_NEW, just_reset=False),
        calls=state.calls + (phase == "call"),
    )


def _witness(case: Case, workflow: Workflow) -> Wit | None:
    renewed = case.guards.call_witness_renewed and not workflow.lineage
    return workflow.call_witness if workflow.phase == "call" and not renewed else workflow.witness


def _history(workflow: Workflow) -> Any:
    if workflow.phase == "resolve":
        return workflow.resolution
    reads = workflow.phase in ("refill", "next ask")
    return (workflow.decision, workflow.outcome) if reads else None


def _heard(state: State, me: Attempt, told: Told) -> State:
    workflow = _after(state.workflow._replace(attempt=None), me.activity, told)
    if me.activity == "begin" and not me.lineage:
        state = state._replace(first_witness=state.first_witness or told.witness)
    if told.kind in ("done", "failed", "doubt", "mismatch"):
        result = told.value if told.kind == "done" else None
        state = state._replace(told=state.told | {(workflow.decision or 0, told.kind, result)})
    attempts = tuple(other for other in state.attempts if other.id != me.id)
    return state._replace(workflow=workflow, attempts=attempts)


def _after(workflow: Workflow, activity: Phase, told: Told) -> Workflow:
    if activity in ("begin", "refill"):
        return workflow._replace(witness=told.witness, phase=workflow.then)
    if told.kind == "gap":
        return workflow._replace(phase="refill", then=activity)
    if activity == "ask":
        asked = workflow._replace(decision=told.value, witness=told.witness, phase="call")
        return asked._replace(call_witness=told.witness)
    if activity == "next ask":
        return workflow._replace(phase="ended")
    return _after_call(workflow, told)


def _after_call(workflow: Workflow, told: Told) -> Workflow:
    match told.kind:
        case "again" | "open":
            return workflow._replace(phase="call", outcome=None)
        case "early":  # a person looks again
            return workflow._replace(phase="in doubt")
        case "doubt":
            return workflow._replace(phase="in doubt", outcome=told)
        case _:
            return workflow._replace(phase="next ask", outcome=told)


def _given_up(case: Case, state: State, me: Attempt) -> State:
    # It may live on, so a doubt about a call is earned.
    earned = state.doubt_earned or me.activity == "call"
    return scheduled(case, state.spend("timeouts")._replace(doubt_earned=earned), me)


def _continued(case: Case, state: State) -> State:
    workflow = state.workflow
    lineage = workflow.lineage and case.guards.continue_keeps_lineage
    continued = workflow._replace(phase="begin", then=workflow.phase, lineage=lineage)
    return state.spend("continues")._replace(workflow=continued)


def _reset(case: Case, state: State, point: Workflow) -> State:
    # An older witness, or none, or a call that was interrupted: a doubt is earned.
    interrupted = state.workflow.phase == "call" and state.workflow.attempt is not None
    earned = state.doubt_earned or state.lost or state.first_witness is None or interrupted
    workflow = point._replace(lineage=not case.guards.workflow_retries, just_reset=True)
    return state.spend("resets")._replace(workflow=workflow, doubt_earned=earned)
