"""Every interleaving around the lifetime of a run's hash: no run that lives may lose its records.

Covered: `end` and its late second attempt, a janitor that sweeps, one that was paused between its
question and its deed, continue-as-new, reset of a closed run, and expiry. Not covered: Redis that
loses the hash (the models of a call and of a run have that), and time itself. Two assumptions stand
in for time: an expiry is longer than a whole sweep, and the margin beyond the namespace's retention
covers what passes between a reset and the first operation of the new run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from search import Move

LOST = "LIVE RUN LOST ITS HASH"

Expiry = Literal["none", "set", "near"]
"""Of the hash. `near`: a whole sweep has gone by since it was set, so it may come any time."""


class Sweep(NamedTuple):
    """A janitor between its question to Temporal and its deed."""

    told_open: bool
    covers_expiry: bool
    """It began when the expiry was set already."""


class Budget(NamedTuple):
    """How often what is rare may still happen."""

    closings: int = 2
    late_ends: int = 1
    continues: int = 1
    resets: int = 2


class Life(NamedTuple):
    """A run as Temporal sees it, and its hash."""

    left: Budget
    run_open: bool = True
    touched: bool = False
    """An operation has come since the run was opened, so the margin no longer protects it."""
    continued: bool = False
    hash_there: bool = True
    expiry: Expiry = "none"
    sweep: Sweep | None = None
    paused_told_open: bool | None = None
    """The answer that a paused janitor still believes."""
    end_under_way: bool = False
    """An attempt of `end` that Temporal gave up may still arrive."""


Moves = Iterator[Move[Life]]


@dataclass(frozen=True)
class Janitor:
    """The world of one hash; each rule that is False is a way to get it wrong."""

    operations_persist: bool = True
    sweep_persists_open_runs: bool = True
    asks_for_the_current_run: bool = True
    sets_expiry_once: bool = True

    def start(self) -> Life:
        """Open a run."""
        return Life(Budget())

    def violation(self, life: Life) -> str | None:
        """Say what must never be."""
        return LOST if life.run_open and not life.hash_there else None

    def ending(self, life: Life) -> str | None:
        """Say how it may end: expired, or with a run that is open."""
        if not life.hash_there:
            return "expired"
        return "open" if life.run_open else None

    def moves(self, life: Life) -> Moves:
        """Yield every next step."""
        if not life.hash_there:
            return
        yield from self._operations(life)
        yield from _temporal(life)
        yield from self._janitor(life)
        yield from self._paused_janitor(life)
        if life.expiry == "near" and (life.touched or not life.run_open):
            yield Move("the hash expires", life._replace(hash_there=False), fair=True)

    def _operations(self, life: Life) -> Moves:
        expiry: Expiry = "none" if self.operations_persist else life.expiry
        touched = life._replace(touched=life.run_open, expiry=expiry)
        yield Move("an operation" if life.run_open else "an operation of a zombie", touched)

    def _janitor(self, life: Life) -> Moves:
        if life.sweep is None:
            told_open = life.run_open and (self.asks_for_the_current_run or not life.continued)
            asked = Sweep(told_open, covers_expiry=life.expiry != "none")
            answer = "open" if told_open else "closed"
            yield Move(f"the janitor hears: {answer}", life._replace(sweep=asked), fair=True)
            return
        acted = life._replace(sweep=None, expiry=self._after(life.expiry, life.sweep))
        yield Move("the janitor acts", acted, fair=True)
        if life.paused_told_open is None:
            paused = life._replace(sweep=None, paused_told_open=life.sweep.told_open)
            yield Move("the janitor is paused", paused)

    def _paused_janitor(self, life: Life) -> Moves:
        if life.paused_told_open is not None:
            expiry = self._after(life.expiry, Sweep(life.paused_told_open, covers_expiry=False))
            acted = _expiry_anew(life._replace(paused_told_open=None), expiry)
            yield Move("the paused janitor acts", acted)

    def _after(self, expiry: Expiry, sweep: Sweep) -> Expiry:
        if sweep.told_open and self.sweep_persists_open_runs:
            return "none"
        if not sweep.told_open and (expiry == "none" or not self.sets_expiry_once):
            return "set"
        return "near" if expiry != "none" and sweep.covers_expiry else expiry


def _temporal(life: Life) -> Moves:
    left = life.left
    if life.run_open and left.continues:
        continued = life._replace(continued=True, left=left._replace(continues=0))
        yield Move("continue-as-new", continued)
    if life.run_open and left.closings:
        yield from _closings(life)
    if life.end_under_way:
        yield Move("the late end arrives", _expiry_anew(life._replace(end_under_way=False), "set"))
    if not life.run_open and left.resets:
        spent = left._replace(resets=left.resets - 1)
        yield Move("RESET", life._replace(run_open=True, touched=False, left=spent))


def _closings(life: Life) -> Moves:
    spent = life.left._replace(closings=life.left.closings - 1)
    closed = life._replace(run_open=False, left=spent)
    yield Move("the run is terminated", closed)
    ended = _expiry_anew(closed, "set")
    yield Move("end, and the run closes", ended)
    if spent.late_ends:
        late = ended._replace(left=spent._replace(late_ends=0), end_under_way=True)
        yield Move("end is given up; its next attempt closes the run", late)


def _expiry_anew(life: Life, expiry: Expiry) -> Life:
    # A sweep under way does not see an expiry that was set after it had asked.
    sweep = life.sweep and life.sweep._replace(covers_expiry=False)
    return life._replace(expiry=expiry, sweep=sweep)
