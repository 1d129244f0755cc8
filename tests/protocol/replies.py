"""Every interleaving of the attempts at one of Claude's steps: each reply must answer its own turn.

Covered: one step and its redo ids, for branches whose conversation before the step (its digest, the
fingerprint of the reply) and whose own user turn may differ; attempts that Temporal gave up; Redis
that loses everything, at any moment; refill; reset to before the step; a redo because Claude's
reply was cut off. Not covered: the birth nonce and the witness (the model of a run has them), usage
records, and the ids of people's messages in a turn that is adopted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ledger_model import Place, Protocol, Rec, Rules, Said
from search import CUT, Move

OTHER_TRANSCRIPT = "REPLY OF ANOTHER TRANSCRIPT"
OTHER_TURN = "REPLY AND TURN DO NOT FIT"

_FIRST_TURN, _OTHER_TURN = 1, 2
_NOBODY, _NEW = -1, 1000
_RIGHT = Rules()
_MOST_ATTEMPTS = 6
_IDS = 4
"""The step's own id, then its redo ids; a branch that comes to the last one is cut."""

Phase = Literal["ask", "refill", "next ask", "ended"]
Point = Literal["start", "claimed", "asked"]


class Reply(NamedTuple):
    """What a reply was made for."""

    digest: int
    turn: int


class Attempt(NamedTuple):
    """An attempt of an activity. It may live on when Temporal has given it up."""

    id: int
    activity: Phase
    step: int
    digest: int
    turn: int
    """The user turn that it built, or found frozen."""
    history: Reply | None = None
    """What history knew of the reply when the attempt began."""
    at: Point = "start"


class Branch(NamedTuple):
    """The workflow of the present branch."""

    digest: int
    turn: int
    phase: Phase = "ask"
    step: int = 0
    attempt: int | None = None
    got: Reply | None = None


class Budget(NamedTuple):
    """How often what is rare may still happen."""

    timeouts: int = 0
    wipes: int = 0
    resets: int = 0
    redos: int = 0


class State(NamedTuple):
    """The whole world."""

    left: Budget
    branch: Branch
    places: tuple[Place, ...] = (Place(),) * _IDS
    """What Redis holds, by step id."""
    attempts: tuple[Attempt, ...] = ()


Labelled = Iterator[tuple[str, State]]


@dataclass(frozen=True)
class Replies:
    """The world of one step."""

    budget: Budget
    rules: Rules = _RIGHT
    freezes_in_claim: bool = True
    """[mutant: False] The turn is frozen by a call of its own, which does not check the owner."""

    @cached_property
    def _ledger(self) -> Protocol:
        return Protocol("read", claude=True, rules=self.rules)

    def start(self) -> State:
        """Ask for the step's reply for the first time."""
        return _normal(_scheduled(State(self.budget, Branch(digest=0, turn=_FIRST_TURN))))

    def violation(self, state: State) -> str | None:
        """Say what must never be."""
        got = state.branch.got
        if got and got.digest != state.branch.digest:
            return OTHER_TRANSCRIPT
        return OTHER_TURN if any(_misfits(place) for place in state.places) else None

    def ending(self, state: State) -> str | None:
        """Name the step id under which the conversation went on."""
        if state.branch.step >= _IDS - 1 or len(state.attempts) > _MOST_ATTEMPTS:
            return CUT
        return f"id {state.branch.step}" if state.branch.phase == "ended" else None

    def moves(self, state: State) -> Iterator[Move[State]]:
        """Yield every next step."""
        for me in state.attempts:
            current = me.id == state.branch.attempt
            for label, after in self._steps(state, me):
                who = "" if current else " of before"
                yield Move(f"{me.activity} {me.id}{who} {label}", _normal(after), fair=current)
        for label, after in _faults(state):
            yield Move(label, _normal(after))

    def _steps(self, state: State, me: Attempt) -> Labelled:
        if me.activity == "refill":
            yield self._refill(state, me)
        elif me.activity == "next ask":
            yield _ask_next(state, me)
        elif me.at == "start":
            yield from self._claim(state, me)
        elif me.at == "claimed":
            frozen = state.places[me.step]._replace(turn=me.turn)
            yield "freezes", _wrote(state, me._replace(at="asked"), frozen)
        else:
            yield self._complete(state, me)

    def _claim(self, state: State, me: Attempt) -> Labelled:
        place = state.places[me.step]
        for over in (False, True) if place.rec and place.rec.st == "claimed" else (False,):
            said, after = self._ledger.claim(
                place,
                token=me.id,
                fp=me.digest,
                wit=None,
                over=over,
                lineage=True,
                turn=me.turn if self.freezes_in_claim else None,
            )
            if said.verdict == "claimed" and self.freezes_in_claim:
                yield "claims", _wrote(state, me._replace(at="asked", turn=_turn(said)), after)
            elif said.verdict == "claimed":
                yield "claims", _wrote(state, me._replace(at="claimed"), after)
            elif said.verdict != "busy":
                yield f"claim: {said.verdict}", _returned(state, me, said, after)

    def _complete(self, state: State, me: Attempt) -> tuple[str, State]:
        said, after = self._ledger.complete(
            state.places[me.step],
            token=me.id,
            fp=me.digest,
            text=Reply(me.digest, me.turn),
            turn=me.turn,
            lineage=True,
        )
        return f"complete: {said.verdict}", _returned(state, me, said, after)

    def _refill(self, state: State, me: Attempt) -> tuple[str, State]:
        if me.history is None:
            return "has nothing", _over(state, me, phase="ask")
        _, after = self._ledger.restore(
            state.places[me.step], st="done", fp=me.digest, text=me.history, turn=me.history.turn
        )
        return "restores", _over(_wrote(state, me, after), me, phase="next ask")


# ---- what comes of an answer of the ledger


def _turn(said: Said) -> Any:
    return said.turn


def _returned(state: State, me: Attempt, said: Said, after: Place) -> State:
    state = _wrote(state, me, after)
    if said.verdict == "mismatch":  # another branch's reply: ask under a redo id
        return _over(state, me, step=me.step + 1)
    if said.verdict != "done":  # taken over: Temporal tries again
        return _over(state, me)
    if said.turn is None:
        return _over(state, me, phase="refill")
    reply: Any = said.text
    return _over(state, me, phase="next ask", got=Reply(reply.digest, _turn(said)))


def _ask_next(state: State, me: Attempt) -> tuple[str, State]:
    """Ask for the step after this one, if the ledger holds the conversation as it was."""
    place, got = state.places[me.step], me.history
    done = place.rec is not None and place.rec.st == "done" and place.rec.text == got
    whole = done and got is not None and place.turn == got.turn
    return "reads", _over(state, me, phase="ended" if whole else "refill")


def _wrote(state: State, me: Attempt, place: Place) -> State:
    places = (*state.places[: me.step], place, *state.places[me.step + 1 :])
    attempts = tuple(me if other.id == me.id else other for other in state.attempts)
    return state._replace(places=places, attempts=attempts)


def _over(state: State, me: Attempt, **then: Any) -> State:
    """End an attempt; the workflow goes on if it was the current one's."""
    attempts = tuple(other for other in state.attempts if other.id != me.id)
    state = state._replace(attempts=attempts)
    if state.branch.attempt != me.id:
        return state
    return _scheduled(state._replace(branch=state.branch._replace(**then)))


def _scheduled(state: State) -> State:
    branch = state.branch
    if branch.phase == "ended":
        return state._replace(branch=branch._replace(attempt=None))
    me = Attempt(_NEW, branch.phase, branch.step, branch.digest, branch.turn, branch.got)
    return state._replace(attempts=(*state.attempts, me), branch=branch._replace(attempt=_NEW))


# ---- what may go wrong


def _faults(state: State) -> Labelled:
    branch, left = state.branch, state.left
    if branch.phase != "ended" and left.timeouts:
        spent = left._replace(timeouts=left.timeouts - 1)
        yield "given up", _scheduled(state._replace(left=spent))
    if branch.phase == "next ask" and left.redos:
        redo = branch._replace(phase="ask", step=branch.step + 1, got=None)
        spent = left._replace(redos=left.redos - 1)
        yield "the reply was cut off", _scheduled(state._replace(branch=redo, left=spent))
    if left.wipes:
        spent = left._replace(wipes=left.wipes - 1)
        yield "FLUSHALL", state._replace(places=(Place(),) * _IDS, left=spent)
    for digest in (0, 1) if left.resets else ():
        spent = left._replace(resets=left.resets - 1)
        reset = state._replace(branch=Branch(digest, turn=_OTHER_TURN), left=spent)
        yield f"RESET, digest {digest}", _scheduled(reset)


def _misfits(place: Place) -> bool:
    if place.rec is None or place.rec.st != "done" or place.turn is None:
        return False
    reply: Any = place.rec.text
    return bool(reply.turn != place.turn)


# ---- fewer states: what is over is forgotten, ids are small


def _normal(state: State) -> State:
    current = state.branch.attempt
    # An attempt that only reads, and that nobody waits for, changes nothing.
    kept = [me for me in state.attempts if me.id == current or me.activity != "next ask"]
    ids = {me.id: index for index, me in enumerate(kept)}
    return state._replace(
        attempts=tuple(me if ids[me.id] == me.id else me._replace(id=ids[me.id]) for me in kept),
        branch=state.branch._replace(attempt=None if current is None else ids[current]),
        places=tuple(_renamed(place, ids) for place in state.places),
    )


def _renamed(place: Place, ids: dict[Any, int]) -> Place:
    rec: Rec | None = place.rec
    if rec is None:
        return place
    # Who owned a record that ended asks no more; how often it was claimed changes nothing here.
    own: Any = ids.get(rec.own, _NOBODY) if rec.st in ("claimed", "open") else None
    same = own == rec.own and rec.n == 0
    return place if same else place._replace(rec=rec._replace(own=own, n=0))
