"""An attempt of the call: read its input, claim, seal, send, and tell the ledger how it ended."""

from ledger_model import Answer, Place, Said
from run_state import Attempt, Case, Labelled, Point, Request, State, Told, replaced, write

_OPERATIONS: dict[Point, str] = {
    "input read": "claim",
    "answered": "complete",
    "refused": "fail",
    "unknown": "doubt",
}


def call_steps(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    """Yield what the attempt may do next, talking to one Redis."""
    match me.at:
        case "start":
            yield _read_input(state, me, server)
        case "input read":
            yield from _claim(case, state, me, server)
        case "sealing":
            yield _seal(state, me)
        case "sending":
            request = Request(me.id, me.fp or 0, me.fence)
            sent = me._replace(at="sent")
            yield "sends", state.put(sent, requests=(*state.requests, request))
        case "answered" | "refused" | "unknown":
            yield from _tell(case, state, me, server)
        case _:
            pass
    yield from _outcome_lost(state, me)


def _read_input(state: State, me: Attempt, server: int) -> tuple[str, State]:
    # Another branch's reply, after a wipe, asks for another call: its input is not this one's.
    if state.redis[server].held.reply != me.fp:
        return "finds no reply", state.put(me._replace(at="returning", told=Told("gap")))
    return "reads its input", state.put(me._replace(at="input read"))


def _claim(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    held = state.redis[server].held.call
    busy = held is not None and held.st == "claimed" and held.own != me.id
    # A lease may be over at any moment: no clock is believed.
    for over in (False, True) if busy else (False,):
        said, place = case.ledger.claim(
            state.redis[server].of_call,
            token=me.id,
            fp=me.fp,
            wit=me.witness,
            over=over,
            at=state.doubts + 1,
        )
        if said.verdict == "claimed":
            mine = _claimed(case, state, me, said)
            fences = state.fences + (case.cls == "sealed")
            yield "claims", write(case, state, server, call=place.rec).put(mine, fences=fences)
        elif said.verdict != "busy":
            yield _answer(case, state, me, server, (said, place))


def _claimed(case: Case, state: State, me: Attempt, said: Said) -> Attempt:
    mine = me._replace(at="sending")
    if case.cls != "sealed":
        return mine
    seals = said.ms or not case.strict
    return mine._replace(at="sealing" if seals else "sending", fence=state.fences + 1)


def _seal(state: State, me: Attempt) -> tuple[str, State]:
    fp = me.fp or 0
    if me.fence < state.seals[fp]:
        return "seals too late", state.put(me._replace(at="returning", told=Told("again")))
    happened = state.answers[fp]
    mine = me._replace(at="answered", brought=happened) if happened else me._replace(at="sending")
    return "seals", state.put(mine, seals=replaced(state.seals, fp, me.fence))


def _tell(case: Case, state: State, me: Attempt, server: int) -> Labelled:
    """Tell the ledger how it ended. Redis may be away; then history alone knows."""
    place = state.redis[server].of_call
    if me.at == "unknown" and case.cls != "at_most_once":
        _, place = case.ledger.release(place, token=me.id, fp=me.fp, maybe=True)
        released = write(case, state, server, call=place.rec)
        yield "releases", released.put(me._replace(at="returning", told=Told("again")))
    else:
        answer = _told_ledger(case, place, me, at=state.doubts + 1)
        yield _answer(case, state, me, server, answer)
    yield from _tell_nobody(case, state, me)


def _told_ledger(case: Case, place: Place, me: Attempt, at: int) -> Answer:
    if me.at == "answered":
        return case.ledger.complete(place, token=me.id, fp=me.fp, text=me.brought)
    if me.at == "refused":
        return case.ledger.fail(place, token=me.id, fp=me.fp, text=None, at=at)
    return case.ledger.doubt(place, token=me.id, fp=me.fp, at=at)


def _tell_nobody(case: Case, state: State, me: Attempt) -> Labelled:
    current = me.id == state.workflow.attempt
    if state.left.unrecorded and current and (told := _unrecorded(case, me)):
        returning = state.put(me._replace(at="returning", told=told), doubt_earned=True)
        yield f"finds Redis away: {told.kind}", returning.spend("unrecorded")


def _unrecorded(case: Case, me: Attempt) -> Told | None:
    if me.at == "answered":
        return Told("done", me.brought)
    once = case.cls == "at_most_once"
    if me.at == "unknown":
        return Told("doubt") if once else None
    # Only the ledger knows of another attempt's request, and that this one was not taken over.
    believed = once or not case.guards.unrecorded_refusal_is_weighed
    return Told("failed") if believed else Told("doubt")


def _answer(
    case: Case, state: State, me: Attempt, server: int, answer: Answer
) -> tuple[str, State]:
    said, place = answer
    state = write(case, state, server, call=place.rec)
    told = _told(me, said)
    forgotten = told.kind == "doubt" and state.truth == me.fp
    named = place.rec is not None and place.rec.at == state.doubts + 1
    after = state.put(
        me._replace(at="returning", told=told),
        truth_forgotten=state.truth_forgotten or forgotten,
        doubts=state.doubts + named,
    )
    return f"{_OPERATIONS[me.at]}: {said.verdict}", after


def _told(me: Attempt, said: Said) -> Told:
    match said.verdict:
        case "done":
            return Told("done", said.text)
        case "failed":
            return Told("failed")
        case "doubt":
            return Told("doubt", said.at)
        case "mismatch":
            return _own_verdict(me)
        case _:
            return Told("again")


def _own_verdict(me: Attempt) -> Told:
    """The record is another branch's: what this attempt knows by itself, unrecorded."""
    if me.at == "answered":
        return Told("done", me.brought)
    return Told("doubt") if me.at == "unknown" else Told("mismatch")


def _outcome_lost(state: State, me: Attempt) -> Labelled:
    if me.at in ("sent", "answered") and state.left.ambiguous:
        unknown = state.put(me._replace(at="unknown", brought=None), doubt_earned=True)
        yield "times out, or gets a 5xx", unknown.spend("ambiguous")
