"""Every interleaving around one call: its effect happens once at most, and history is told no lie.

Covered: attempts and zombies, each of which can stop for ever at any point; requests that arrive at
any later time; a lease that may be over at any moment; answers that are unclear, and refusals;
replies of Redis that are lost, copies of claims that come late; Redis that cannot be told, that
loses all, its tail or its identity, or splits in two; reset. Not covered: what is around the call
(the explorer of a run has that), two calls at once, a downstream that forgets keys, a clock that
goes back, real time. `timed` has its assumption built in.
"""

from dataclasses import dataclass

from call_attempt import FP, attempt_moves
from call_redis import redis_moves
from call_setup import KEEPS_KEYS, Setup
from call_state import Call, Moves, Primary, Told
from search import CUT, Move

DOUBLE_FIRE = "DOUBLE FIRE"
NOT_DONE = "TOLD DONE, NO EFFECT"
NOT_FAILED = "TOLD FAILED, EFFECT HAPPENED"
TWO_RESULTS = "DIFFERENT RESULTS"
NEEDLESS_DOUBT = "NEEDLESS DOUBT"


@dataclass(frozen=True)
class OneCall:
    """The world of one call."""

    setup: Setup

    def start(self) -> Call:
        """Schedule the call."""
        return Call(left=self.setup.mix.faults)

    def moves(self, call: Call) -> Moves:
        """Yield every next step, of everybody."""
        for label, after, fair in self._moves(call):
            yield Move(label, self.setup.canonical(after), fair)

    def _moves(self, call: Call) -> Moves:
        for i in range(len(call.attempts)):
            yield from attempt_moves(self.setup, call, i)
        yield from _downstream(self.setup, call)
        yield from redis_moves(self.setup, call)
        yield from _temporal(self.setup, call)
        if self.setup.conduct.retries_without_quarantine:
            yield from _person(self.setup, call)

    def ending(self, call: Call) -> str | None:
        """Say what the branch was told."""
        if call.cut:
            return CUT
        return call.last.verdict if call.last else None

    def violation(self, call: Call) -> str | None:
        """Say which promise is broken."""
        verdicts = {told.verdict for told in call.told}
        if call.effects > 1 and self.setup.cls != "read":
            return DOUBLE_FIRE
        if "done" in verdicts and call.effects == 0:
            return NOT_DONE
        if "failed" in verdicts and call.effects and self._failed_must_hold(call):
            return NOT_FAILED
        if self._results(call) > 1:
            return TWO_RESULTS
        return NEEDLESS_DOUBT if "doubt" in verdicts and self._needless(call) else None

    def _failed_must_hold(self, call: Call) -> bool:
        # A zombie that finds no record carries out what was refused to another: once, at most.
        lost = call.records_lost and not self.setup.failed_is_for_ever
        return self.setup.cls != "read" and not lost

    def _results(self, call: Call) -> int:
        # What a read brought, and only the branch before a reset knows, is read again.
        unknown = call.records_lost or self._struck(call, "outages")
        if self.setup.cls == "read" and unknown:
            return 1
        return len({told.result for told in call.told if told.verdict == "done"})

    def _needless(self, call: Call) -> bool:
        """Whether nothing that struck can leave a call of this class in doubt."""
        if self.setup.cls == "at_most_once":
            return call.left == self.setup.mix.faults
        return not any(self._struck(call, fault) for fault in self._excuses())

    def _excuses(self) -> tuple[str, ...]:
        if self.setup.cls == "read":
            return ()
        lossy_timed = self.setup.cls == "timed" and not self.setup.mix.strict
        return ("refusals", "redis") if lossy_timed else ("refusals",)

    def _struck(self, call: Call, fault: str) -> bool:
        before: int = getattr(self.setup.mix.faults, fault)
        left: int = getattr(call.left, fault)
        return left < before


def _downstream(setup: Setup, call: Call) -> Moves:
    for i in call.in_flight:
        arrived = call._replace(in_flight=call.in_flight - {i})
        if setup.cls == "sealed" and call.attempts[i].fence < call.sealed:
            yield Move(f"the request of {i} is refused by the seal", arrived, fair=True)
        else:
            yield from _received(setup, arrived, i)
        if setup.cls == "timed":
            yield Move(f"the request of {i} is lost", arrived, fair=True)


def _received(setup: Setup, call: Call, i: int) -> Moves:
    """The request of `i` is carried out, or answered from memory, or refused."""
    if setup.cls in KEEPS_KEYS and call.remembered:
        again = _replied(call, i, Told("done", call.remembered))
        yield Move(f"the request of {i} is a repetition", again, fair=True)
        return
    result = f"result of {i}"
    happened = call._replace(effects=call.effects + 1, remembered=call.remembered or result)
    yield Move(
        f"the request of {i}: EFFECT", _replied(happened, i, Told("done", result)), fair=True
    )
    if call.left.refusals:
        refused = _replied(call.spent("refusals"), i, Told("failed"))
        yield Move(f"the request of {i} is refused", refused, fair=True)


def _replied(call: Call, i: int, told: Told) -> Call:
    return call._replace(replies=call.replies | {(i, told)})


def _temporal(setup: Setup, call: Call) -> Moves:
    if call.open and call.left.timeouts and call.attempts[-1].stage != "gone":
        yield Move(f"timeout of {call.current}", call.spent("timeouts").retried())
    if call.left.resets:
        yield Move("RESET", _reset(setup, call.spent("resets")))


def _reset(setup: Setup, call: Call) -> Call:
    place = call.primaries[0].place
    if setup.conduct.refreshes_witness_on_reset and place.wit:
        call = call._replace(witness=place.wit)
    if setup.conduct.begins_on_reset and place.nonce is None:
        begun = place._replace(nonce="second")
        call = call._replace(witness=begun.wit).on(0, Primary(begun))
    return call._replace(open=True, last=None).retried()


def _person(setup: Setup, call: Call) -> Moves:
    """Somebody looks at the downstream, sees no effect, and says so at once."""
    if call.last and call.last.verdict == "doubt" and not call.effects:
        primary = call.primaries[0]
        resolve = setup.protocol(call.current).resolve
        _, place = resolve(primary.place, fp=FP, at=None, to="retry", early=False)
        retried = call.on(0, primary.writes(place))._replace(open=True, last=None).retried()
        yield Move("a person says: not done, retry", retried)
