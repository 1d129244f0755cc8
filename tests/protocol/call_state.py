"""One call and everything that its outcome can depend on, as one immutable value."""

from collections.abc import Hashable, Iterator
from typing import Literal, NamedTuple

from ledger_model import Place, Rec, Wit
from search import Move

Stage = Literal[
    "claims",  # about to ask the ledger for the right to send
    "seals",  # about to have the downstream refuse every earlier fence
    "checks",  # about to ask the downstream whether it happened
    "sends",  # may send, and has not
    "waits",  # has sent
    "knows",  # has the outcome, and has not recorded it
    "unsure",  # will get no answer
    "unsent",  # knows that its request never left
    "reports",  # about to return to Temporal
    "gone",
]

BEGUN = Wit(nonce="first", inc=0)
"""What the first `begin` saw."""


class Told(NamedTuple):
    """An outcome, as an attempt knows it or as history was told."""

    verdict: Literal["done", "failed", "doubt"]
    result: Hashable = None


class Attempt(NamedTuple):
    """One attempt at the call. It can stop for ever between any two moves: that is a crash."""

    stage: Stage = "claims"
    fence: int = 0
    outcome: Told | None = None


class Faults(NamedTuple):
    """How often what is rare may still happen."""

    timeouts: int = 1
    """Temporal gives up an attempt that lives: a zombie, or one that crashed."""
    unclear: int = 1
    """A tool gets no answer to what it sent."""
    refusals: int = 0
    not_sent: int = 0
    lost_replies: int = 0
    """Of Redis, which did what it was asked."""
    outages: int = 0
    """Redis cannot be told how the call ended."""
    late_claims: int = 0
    """A second copy of a claim arrives, long after the first."""
    redis: int = 0
    """Redis loses what it holds, or its identity."""
    resets: int = 0


class Primary(NamedTuple):
    """A Redis server that takes writes."""

    place: Place = Place(BEGUN.nonce, BEGUN.inc)
    older: tuple[Rec | None, ...] = ()
    """Every earlier version of the record: where the server is lossy, it may come back."""

    @property
    def fences(self) -> set[int]:
        return {rec.fence for rec in (self.place.rec, *self.older) if rec and rec.fence}

    def fences_ranked(self, rank: dict[int, int]) -> "Primary":
        place = self.place._replace(rec=_ranked(self.place.rec, rank))
        older = {_ranked(rec, rank) for rec in self.older}
        return Primary(place, tuple(sorted(older, key=repr)))

    def writes(self, place: Place) -> "Primary":
        if place == self.place:
            return self
        # The number of claims decides nothing here, and would only multiply the states.
        place = place._replace(rec=place.rec and place.rec._replace(n=0))
        older = {*self.older, self.place.rec}
        return Primary(place, tuple(sorted(older, key=repr)))


def _ranked(rec: Rec | None, rank: dict[int, int]) -> Rec | None:
    return rec._replace(fence=rank[rec.fence]) if rec and rec.fence else rec


class Call(NamedTuple):
    """The workflow's call, its attempts, Redis, and the downstream."""

    left: Faults
    open: bool = True
    """The workflow waits for the call."""
    witness: Wit | None = BEGUN
    attempts: tuple[Attempt, ...] = (Attempt(),)
    """The last is the one that Temporal waits for; the others are zombies."""
    primaries: tuple[Primary, ...] = (Primary(),)
    """Two after a split brain."""
    records_lost: bool = False
    in_flight: frozenset[int] = frozenset()
    """Attempts whose request may still arrive."""
    replies: frozenset[tuple[int, Told]] = frozenset()
    effects: int = 0
    remembered: Hashable = None
    """The result that the downstream keeps under the call's key."""
    sealed: int = 0
    """The downstream refuses every fence below."""
    told: frozenset[Told] = frozenset()
    """What history was told, over all branches."""
    last: Told | None = None
    """What the branch that ended was told."""
    cut: bool = False
    """More attempts than the search follows."""

    @property
    def current(self) -> int:
        return len(self.attempts) - 1

    @property
    def next_fence(self) -> int:
        """Higher than any before, whatever was lost: the server's clock is in it."""
        return 1 + max(self.fences)

    @property
    def fences(self) -> set[int]:
        attempts = {attempt.fence for attempt in self.attempts}
        return attempts.union({0, self.sealed}, *(primary.fences for primary in self.primaries))

    def waits_for(self, i: int) -> bool:
        return self.open and i == self.current

    def spent(self, fault: str) -> "Call":
        return self._replace(left=self.left._replace(**{fault: getattr(self.left, fault) - 1}))

    def at(self, i: int, attempt: Attempt) -> "Call":
        return self._replace(attempts=(*self.attempts[:i], attempt, *self.attempts[i + 1 :]))

    def moved(self, i: int, stage: Stage, outcome: Told | None = None) -> "Call":
        return self.at(i, Attempt(stage, self.attempts[i].fence, outcome))

    def retried(self) -> "Call":
        return self._replace(attempts=(*self.attempts, Attempt()))

    def gives_up(self, i: int, most_attempts: int) -> "Call":
        """Attempt `i` raises; Temporal retries, if it still waits for this attempt."""
        gone = self.moved(i, "gone")
        if not self.waits_for(i):
            return gone
        return gone.retried() if len(self.attempts) < most_attempts else gone._replace(cut=True)

    def on(self, k: int, primary: Primary) -> "Call":
        primaries = (*self.primaries[:k], primary, *self.primaries[k + 1 :])
        return self._replace(primaries=primaries)


Moves = Iterator[Move[Call]]
