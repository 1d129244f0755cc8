"""Every interleaving of a run around one call: what history says must be what happened.

Covered: begin, ask Claude, one call, the next ask; Redis that loses everything, its last writes,
its incarnation or its unity, at any moment; refill (restore, then begin); continue-as-new wherever
no activity is open; reset to every point of every branch, attempts of the old branch living on;
Claude deciding another call when asked again; attempts that Temporal gave up; requests that arrive
at any later moment; ambiguous answers, refusals, Redis away when the outcome is to be recorded;
doubts that a person settles as done, as failed, or to retry. The ledger's own transitions are those
of `ledger_model`; the bounds of each search are the budget of its `Case`.

Not covered: two calls of one reply at once; `timed`, and `transactional`, which the ledger treats
as `keyed`; business keys; doubts that the model is told of; claims of Claude's reply (the first
recorded one wins; see `replies.py`); a restored backup; time. A lease may be over at any moment,
and a quarantine is over when nothing that claimed before it can land any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from run_activities import attempt_steps
from run_outside import downstream_steps, person_steps, redis_faults
from run_state import NOBODY, Attempt, Budget, Case, Held, Point, Redis, Request, State
from run_workflow import must_schedule, scheduled, temporal_steps, workflow_steps
from search import CUT, Move

DOUBLE = "DOUBLE EFFECT"
NOT_DONE = "TOLD DONE, DID NOT HAPPEN"
DIFFERENT = "DIFFERENT RESULTS"
NOT_FAILED = "TOLD FAILED, HAPPENED"
NOT_KNOWN = "TOLD MISMATCH, HAPPENED"
NEEDLESS = "NEEDLESS DOUBT"
FORGOTTEN = "TRUTH FORGOTTEN"

_NEEDS_WITNESS: tuple[Point, ...] = ("start", "half done", "input read")


@dataclass(frozen=True)
class Run:
    """The world of one run."""

    case: Case

    def start(self) -> State:
        """Start a run whose Redis is empty."""
        return normal(self.case, State(self.case.budget))

    def moves(self, state: State) -> Iterator[Move[State]]:
        """Yield every next step."""
        for label, after, fair in self._moves(state):
            yield Move(label, normal(self.case, after), fair)

    def _moves(self, state: State) -> Iterator[tuple[str, State, bool]]:
        case = self.case
        yield from ((*step, True) for step in workflow_steps(case, state))
        for me in state.attempts:
            current = me.id == state.workflow.attempt
            yield from ((*step, current) for step in attempt_steps(case, state, me))
        yield from ((*step, True) for step in downstream_steps(case, state))
        for label, after in person_steps(case, state):
            yield label, after, after.left.retries == state.left.retries
        yield from ((*step, False) for step in temporal_steps(case, state))
        yield from ((*step, False) for step in redis_faults(case, state))

    def ending(self, state: State) -> str | None:
        """Name the outcome that the run ended with."""
        if state.calls > self.case.calls:
            return CUT
        outcome = state.workflow.outcome
        return outcome.kind if state.workflow.phase == "ended" and outcome else None

    def violation(self, state: State) -> str | None:
        """Say what must never be."""
        if max(state.effects) > 1:
            return DOUBLE
        if state.truth_forgotten:
            return FORGOTTEN
        found = (self._untrue(state, *told) for told in state.told)
        return next((why for why in found if why), _different(state))

    def _untrue(self, state: State, decision: int, kind: str, _result: object) -> str | None:
        happened, excused = state.effects[decision] > 0, self.case.guards.limits_excused
        match kind:
            case "done" if not happened:
                return NOT_DONE
            case "failed" if happened and not (state.lost and excused):
                return NOT_FAILED
            case "mismatch" if happened and not excused:
                return NOT_KNOWN
            case "doubt" if not self._may_doubt(state):
                return NEEDLESS
            case _:
                return None

    def _may_doubt(self, state: State) -> bool:
        refused = state.left.refusals < self.case.budget.refusals
        return state.doubt_earned and (self.case.cls == "at_most_once" or refused)


def _different(state: State) -> str | None:
    done = [told for told in state.told if told[1] == "done"]
    return DIFFERENT if len({decision for decision, *_ in done}) < len(done) else None


# ---- fewer states: what must start is started, what is over is forgotten, ids are small


def normal(case: Case, state: State) -> State:
    """Bring a state into the form that it shares with all that differ in nothing that matters."""
    state = _noted(state)
    if must_schedule(state) and not state.left.continues:
        state = scheduled(case, state)
    workflow, left = state.workflow, state.left
    kept = [me for me in state.attempts if me.id == workflow.attempt or me.told is None]
    ids = {me.id: index for index, me in enumerate(kept)}
    requests = (Request(ids.get(sender, NOBODY), fp, fence) for sender, fp, fence in state.requests)
    current = None if workflow.attempt is None else ids[workflow.attempt]
    return state._replace(
        attempts=tuple(_slim(me, ids) for me in kept),
        requests=tuple(sorted(requests)),
        redis=tuple(_renamed(case, left, redis, ids) for redis in state.redis),
        workflow=workflow if current == workflow.attempt else workflow._replace(attempt=current),
    )


def _noted(state: State) -> State:
    """Note where a reset can go back to."""
    workflow = state.workflow
    if not state.left.resets:
        return state._replace(points=frozenset()) if state.points else state
    if workflow.attempt is not None or workflow.phase == "ended":
        return state
    return state._replace(
        points=state.points | {workflow._replace(lineage=False, just_reset=False)}
    )


def _slim(me: Attempt, ids: dict[int, int]) -> Attempt:
    if me.told is not None:
        return Attempt(ids[me.id], me.activity, None, None, me.lineage, at=me.at, told=me.told)
    needs_witness = me.at in _NEEDS_WITNESS or me.activity == "ask"
    witness = me.witness if needs_witness else None
    same = (ids[me.id], witness) == (me.id, me.witness)
    return me if same else me._replace(id=ids[me.id], witness=witness)


def _renamed(case: Case, left: Budget, redis: Redis, ids: dict[int, int]) -> Redis:
    if redis.held.call is None and not redis.older:
        return redis
    # Older states matter only while a fault may bring them back.
    older = redis.older if left.redis_faults else ()
    return Redis(
        _held(case, redis.held, ids),
        redis.inc,
        frozenset(_held(case, held, ids) for held in older),
    )


def _held(case: Case, held: Held, ids: dict[Any, int]) -> Held:
    rec = held.call
    if rec is None:
        return held
    # Who owned a record that ended asks no more; of a doubt, only at_most_once takes it back.
    asks = rec.st in ("claimed", "open") or (rec.st == "doubt" and case.cls == "at_most_once")
    own = ids.get(rec.own, NOBODY) if asks else None
    # How often it was claimed is for the bound on requests, which no search reaches.
    brought_back = held.brought_back and rec.st == "doubt"
    if (own, 0, brought_back) == (rec.own, rec.n, held.brought_back):
        return held
    return held._replace(call=rec._replace(own=own, n=0), brought_back=brought_back)
