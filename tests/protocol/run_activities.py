"""The activities of a run but its call: begin, ask Claude, ask again, refill, resolve."""

from collections.abc import Callable

from ledger_model import Rec, Said, Wit
from run_call import call_steps
from run_outside import under_way
from run_state import Attempt, Case, Labelled, Phase, Redis, State, Told, write

Steps = Callable[[Case, State, Attempt, int], Labelled]


def attempt_steps(case: Case, state: State, me: Attempt) -> Labelled:
    """Yield what an attempt may do next: each step is one operation on one Redis."""
    if me.told is not None:
        return
    who = "" if me.id == state.workflow.attempt else " of before"
    for server in range(len(state.redis)):
        where = f" at {server}" if len(state.redis) > 1 else ""
        for label, after in _STEPS[me.activity](case, state, me, server):
            yield f"{me.activity} {me.id}{who} {label}{where}", after


def _returning(me: Attempt, told: Told) -> Attempt:
    return me._replace(at="returning", told=told)


def _begin(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    # A reset to the first task gave no witness: the original run's history has it.
    state, seen = _begun(case, state, me.witness or state.first_witness, me.lineage, server)
    yield "begins", state.put(_returning(me, Told("ok", witness=seen)))


def _begun(
    case: Case, state: State, given: Wit | None, lineage: bool, server: int
) -> tuple[State, Wit | None]:
    new, before = state.nonces + 1, state.redis[server].of_call
    said, place = case.ledger.begin(before, nonce=new, wit=given, lineage=lineage)
    nonces = new if place.nonce == new else state.nonces
    state = write(case, state, server, nonce=place.nonce)
    return state._replace(nonces=nonces), said.wit


def _ask(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    said = _found(case, state.redis[server], me)
    if me.at == "asked":
        yield _recorded(case, state, me, server)
    elif said.verdict == "claimed":
        for decision in range(case.decisions):
            yield f"hears {decision}", state.put(me._replace(at="asked", brought=decision))
    else:
        yield f"finds: {said.verdict}", state.put(_returning(me, _replied(said)))


def _found(case: Case, redis: Redis, me: Attempt) -> Said:
    # What it claims is left out: of the replies that attempts bring, the first recorded one wins.
    said, _ = case.replies.claim(
        redis.of_reply, token=None, fp="head", wit=me.witness, over=True, lineage=me.lineage
    )
    return said


def _recorded(case: Case, state: State, me: Attempt, server: int) -> tuple[str, State]:
    said, place = case.replies.complete(
        state.redis[server].of_reply,
        token=None,
        fp="head",
        text=me.brought,
        wit=me.witness,
        lineage=me.lineage,
    )
    state = write(case, state, server, reply=place.rec.text if place.rec else None)
    return f"records: {said.verdict}", state.put(_returning(me, _replied(said)))


def _replied(said: Said) -> Told:
    return Told("gap") if said.verdict == "gap" else Told("ok", said.text, said.wit)


def _ask_again(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    """Ask for the next step, if the ledger holds the whole conversation."""
    decision, outcome = me.history
    held = state.redis[server].held
    whole = held.reply == decision and (outcome.kind == "mismatch" or _answers(held.call, me))
    # No reply of the next step is there, but for a birth nonce that is missing it is looked up.
    nothing_yet = Redis(held._replace(reply=None), state.redis[server].inc)
    whole = whole and _found(case, nothing_yet, me).verdict != "gap"
    yield "reads", state.put(_returning(me, Told("ok" if whole else "gap")))


def _answers(rec: Rec | None, me: Attempt) -> bool:
    decision, outcome = me.history
    return rec is not None and (rec.fp, rec.st, rec.text) == (decision, outcome.kind, outcome.value)


def _refill(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    halfway = me.at == "half done"
    if (me.at == "start") == case.guards.refill_before_begin:
        state, witness = _restored(case, state, me, server), me.witness
    else:
        state, witness = _begun(case, state, me.witness, me.lineage, server)
    if halfway:
        yield "ends", state.put(_returning(me, Told("ok", witness=witness)))
    else:
        yield "starts", state.put(me._replace(at="half done", witness=witness))


def _restored(case: Case, state: State, me: Attempt, server: int) -> State:
    decision, outcome = me.history
    if decision is not None:
        state = write(case, state, server, reply=decision)
    if outcome is not None and outcome.kind in ("done", "failed", "doubt"):
        named = {"at" if outcome.kind == "doubt" else "text": outcome.value}
        before = state.redis[server].of_call
        _, place = case.ledger.restore(before, st=outcome.kind, fp=decision, **named)
        state = write(
            case, state, server, call=place.rec, brought_back=not _stands(before.rec, place.rec)
        )
    if case.guards.restore_makes_nonce and me.witness:
        state = write(case, state, server, nonce=me.witness.nonce)
    return state


def _stands(before: Rec | None, after: Rec | None) -> bool:
    """Whether a restore found the very doubt that it brings."""
    if before is None or after is None:
        return False
    return (before.st, before.fp, before.at) == (after.st, after.fp, after.at)


def _resolve(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    to, at = me.history
    said, place = case.ledger.resolve(
        state.redis[server].of_call,
        fp=me.fp,
        at=at,
        to=to,
        early=_early(case, state, server),
        text=1 if to == "done" else None,
    )
    if said.verdict == "gap" and not case.guards.absent_resolve_is_gap:
        return
    state = write(case, state, server, call=place.rec)
    yield f"{to}: {said.verdict}", state.put(_returning(me, _resolved(case, said)))


def _early(case: Case, state: State, server: int) -> bool:
    if not case.guards.quarantine:
        return False
    anew = state.redis[server].held.brought_back and case.guards.quarantine_counts_anew
    return anew or (not case.guards.person_waits and under_way(state))


def _resolved(case: Case, said: Said) -> Told:
    match said.verdict:
        case "done":
            return Told("done", said.text)
        case "failed":
            return Told("failed")
        case "open":
            return Told("open")
        case "early":
            return Told("early")
        case "stale" if not case.guards.stale_resolve_is_gap:
            return Told("early")
        case _:
            return Told("gap")


_STEPS: dict[Phase, Steps] = {
    "begin": _begin,
    "ask": _ask,
    "call": call_steps,
    "next ask": _ask_again,
    "refill": _refill,
    "resolve": _resolve,
}
