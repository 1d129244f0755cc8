"""The moves of one attempt: claim, seal or check, send, wait, record, report."""

from collections.abc import Callable, Iterator

from call_setup import Setup
from call_state import Attempt, Call, Moves, Stage, Told
from ledger_model import Answer, Place, Protocol, Said
from search import Move

FP = "what was asked"
DELETED = Said("deleted")

Ask = Callable[[Protocol, Place], Answer]


def attempt_moves(setup: Setup, call: Call, i: int) -> Moves:
    """Yield what attempt `i` can do next."""
    stage = call.attempts[i].stage
    yield from _MOVES[stage](setup, call, i)
    if call.left.late_claims and stage != "claims":
        yield from _late_claim(setup, call, i)


def _asked(setup: Setup, call: Call, i: int, ask: Ask) -> Iterator[tuple[Said, Call]]:
    """Ask the ledger, on whichever primary answers."""
    for k, primary in enumerate(call.primaries):
        said, place = ask(setup.protocol(i), primary.place)
        yield said, call.on(k, primary.writes(place))


def _reply_lost(call: Call, after: Call, label: str) -> Moves:
    """The ledger did as asked, and the attempt will ask again."""
    if call.left.lost_replies and after.primaries != call.primaries:
        yield Move(f"{label}; the reply is lost", after.spent("lost_replies"))


# ---- before the request


def _claim(call: Call, i: int, *, over: bool) -> Ask:
    return lambda protocol, place: protocol.claim(
        place, token=i, fp=FP, wit=call.witness, over=over, fence=call.next_fence
    )


def _contested(call: Call, i: int) -> bool:
    recs = [primary.place.rec for primary in call.primaries]
    return any(rec and rec.st == "claimed" and rec.own != i for rec in recs)


def _claims(setup: Setup, call: Call, i: int) -> Moves:
    for over in (False, True) if _contested(call, i) else (False,):
        for said, after in _asked(setup, call, i, _claim(call, i, over=over)):
            if said.verdict != "busy":
                yield from _answered(setup, call, after, i, said)


def _answered(setup: Setup, call: Call, after: Call, i: int, said: Said) -> Moves:
    label = f"{i} claims: {said.verdict}"
    yield from _reply_lost(call, after, label)
    yield Move(label, _heard(setup, after, i, said), fair=i == call.current)


def _heard(setup: Setup, call: Call, i: int, said: Said) -> Call:
    if said.verdict == "claimed":
        stage = _before_sending(setup, may_have_sent=said.ms)
        return call.at(i, Attempt(stage, said.fence))
    return _told(setup, call, i, said)


def _before_sending(setup: Setup, *, may_have_sent: bool) -> Stage:
    conduct = setup.conduct
    lossy = not setup.mix.strict and conduct.seals_when_lossy
    if setup.cls == "sealed" and conduct.seals and (may_have_sent or lossy):
        return "seals"
    return "checks" if setup.cls == "timed" and may_have_sent else "sends"


def _late_claim(setup: Setup, call: Call, i: int) -> Moves:
    for _, after in _asked(setup, call, i, _claim(call, i, over=False)):
        if after.primaries != call.primaries:
            yield Move(f"a second copy of {i}'s claim arrives", after.spent("late_claims"))


def _seals(_setup: Setup, call: Call, i: int) -> Moves:
    fence, fair = call.attempts[i].fence, i == call.current
    if fence < call.sealed:
        yield Move(f"{i} seals: too late", call.moved(i, "unsent"), fair)
        return
    sealed = call._replace(sealed=fence)
    yield Move(f"{i} seals", _looked(sealed, i), fair)


def _checks(setup: Setup, call: Call, i: int) -> Moves:
    sending = any(j != i and attempt.stage == "sends" for j, attempt in enumerate(call.attempts))
    drained = not call.in_flight and not sending
    if call.remembered or drained or not setup.conduct.waits_for_drain:
        yield Move(f"{i} checks", _looked(call, i), fair=i == call.current)


def _looked(call: Call, i: int) -> Call:
    """The downstream says whether it happened."""
    if call.remembered:
        return call.moved(i, "knows", Told("done", call.remembered))
    return call.moved(i, "sends")


# ---- the request


def _sends(setup: Setup, call: Call, i: int) -> Moves:
    if setup.cls == "timed" and setup.conduct.waits_for_drain and i != call.current:
        # The timing assumption: who was paused for too long looks at the clock before it sends.
        yield Move(f"{i} is too late to send", call.moved(i, "gone"), fair=True)
    sent = call._replace(in_flight=call.in_flight | {i}).moved(i, "waits")
    yield Move(f"{i} sends", sent, fair=i == call.current)
    if call.left.not_sent:
        yield Move(f"{i} cannot connect", call.spent("not_sent").moved(i, "unsent"))


def _waits(_setup: Setup, call: Call, i: int) -> Moves:
    fair, mine = i == call.current, [told for j, told in call.replies if j == i]
    for told in mine:
        yield Move(f"{i} hears: {told.verdict}", call.moved(i, "knows", told), fair)
    if call.left.unclear:
        yield Move(f"{i} hears nothing", call.spent("unclear").moved(i, "unsure"))
    if not mine and i not in call.in_flight:
        yield Move(f"{i} hears an error", call.moved(i, "unsure"), fair)


# ---- after the request


def _knows(setup: Setup, call: Call, i: int) -> Moves:
    outcome = call.attempts[i].outcome
    assert outcome
    for said, after in _asked(setup, call, i, _end(i, call.attempts[i].fence, outcome)):
        label = f"{i} records {outcome.verdict}: {said.verdict}"
        yield from _reply_lost(call, after, label)
        yield Move(label, _told(setup, after, i, said), fair=i == call.current)
    if call.left.outages:
        told = _unrecorded(setup, outcome)
        reports = call.spent("outages").moved(i, "reports", told)
        yield Move(f"{i} cannot record {outcome.verdict}, reports {told.verdict}", reports)


def _unrecorded(setup: Setup, outcome: Told) -> Told:
    """A result needs no record. A refusal is of one request: the ledger knows of others."""
    if outcome.verdict == "done" or setup.believes_unrecorded_refusal:
        return outcome
    return Told("doubt")


def _end(i: int, fence: int, outcome: Told) -> Ask:
    if outcome.verdict == "done":
        return lambda protocol, place: protocol.complete(place, token=i, fp=FP, text=outcome.result)
    return lambda protocol, place: protocol.fail(place, token=i, fp=FP, text=None, fence=fence)


def _told(setup: Setup, call: Call, i: int, said: Said) -> Call:
    """What the ledger says is what Temporal gets; who was fenced off says nothing."""
    match said.verdict:
        case "done" | "failed" | "doubt":
            return call.moved(i, "reports", Told(said.verdict, said.text))
        case _:
            return call.gives_up(i, setup.mix.most_attempts)


def _unsure(setup: Setup, call: Call, i: int) -> Moves:
    if setup.conduct.deletes_on_exception:
        yield from _asks(setup, call, i, lambda _, place: (DELETED, place._replace(rec=None)))
    elif setup.sends_once:
        yield from _doubts(setup, call, i)
    else:
        yield from _releases(setup, call, i, maybe=True)


def _doubts(setup: Setup, call: Call, i: int) -> Moves:
    yield from _asks(setup, call, i, lambda protocol, place: protocol.doubt(place, token=i, fp=FP))
    if call.left.outages:
        doubts = call.spent("outages").moved(i, "reports", Told("doubt"))
        yield Move(f"{i} cannot record its doubt", doubts)


def _unsent(setup: Setup, call: Call, i: int) -> Moves:
    yield from _releases(setup, call, i, maybe=False)


def _releases(setup: Setup, call: Call, i: int, *, maybe: bool) -> Moves:
    def release(protocol: Protocol, place: Place) -> Answer:
        return protocol.release(place, token=i, fp=FP, maybe=maybe)

    yield from _asks(setup, call, i, release)
    if call.left.outages:
        # Nothing is lost: the lease runs out.
        kept = call.spent("outages").gives_up(i, setup.mix.most_attempts)
        yield Move(f"{i} cannot release", kept)


def _asks(setup: Setup, call: Call, i: int, ask: Ask) -> Moves:
    for said, after in _asked(setup, call, i, ask):
        ended = _told(setup, after, i, said)
        yield Move(f"{i} is over: {said.verdict}", ended, fair=i == call.current)


def _reports(_setup: Setup, call: Call, i: int) -> Moves:
    outcome = call.attempts[i].outcome
    assert outcome
    if call.waits_for(i):
        told = call._replace(open=False, told=call.told | {outcome}, last=outcome)
        yield Move(f"{i} reports {outcome.verdict}", told.moved(i, "gone"), fair=True)


def _gone(_setup: Setup, _call: Call, _i: int) -> Moves:
    yield from ()


_MOVES: dict[Stage, Callable[[Setup, Call, int], Moves]] = {
    "claims": _claims,
    "seals": _seals,
    "checks": _checks,
    "sends": _sends,
    "waits": _waits,
    "knows": _knows,
    "unsure": _unsure,
    "unsent": _unsent,
    "reports": _reports,
    "gone": _gone,
}
