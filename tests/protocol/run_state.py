"""The named states of the model of a run: its workflow, its attempts, its Redis, the outside."""

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ledger_model import Place, Protocol, Rec, Rules, Wit

NOBODY = -1
"""In place of the id of an attempt that is over."""

Phase = Literal["begin", "ask", "call", "in doubt", "resolve", "next ask", "refill", "ended"]
"""What the workflow does next; but for two of them, an activity."""
WAITING: Collection[Phase] = ("in doubt", "ended")
"""Phases that schedule no activity."""

Point = Literal[
    "start",
    "half done",  # a refill between its `restore` and its `begin`
    "asked",  # Claude has decided, and the reply is not recorded
    "input read",
    "sealing",
    "sending",
    "sent",
    "answered",
    "refused",
    "unknown",
    "returning",
]
"""How far an attempt is."""

Kind = Literal["ok", "gap", "again", "done", "failed", "doubt", "mismatch", "open", "early"]


class Told(NamedTuple):
    """What an attempt returns to the workflow."""

    kind: Kind
    value: Any = None
    """A decision, a result, or the name of a doubt."""
    witness: Wit | None = None


class Attempt(NamedTuple):
    """One attempt of an activity. It may live on when Temporal has given it up."""

    id: int
    activity: Phase
    witness: Wit | None
    fp: int | None
    """Fingerprint of the call: the decision that asked for it."""
    lineage: bool
    history: Any = None
    """What it took from history when it was scheduled."""
    at: Point = "start"
    fence: int = 0
    brought: Any = None
    """A decision of Claude's, or the result of the effect."""
    told: Told | None = None


class Workflow(NamedTuple):
    """What history knows."""

    phase: Phase = "begin"
    then: Phase = "ask"
    """Where a repair, or a continued run's `begin`, leads back to."""
    witness: Wit | None = None
    call_witness: Wit | None = None
    decision: int | None = None
    outcome: Told | None = None
    resolution: tuple[str, Any] | None = None
    """What a person said, and of which doubt."""
    lineage: bool = False
    attempt: int | None = None
    """Id of the attempt whose result counts."""
    just_reset: bool = False


class Held(NamedTuple):
    """What one Redis holds of the run."""

    nonce: int | None = None
    reply: int | None = None
    """The decision in the recorded reply: the first that was recorded."""
    call: Rec | None = None
    brought_back: bool = False
    """Its doubt was brought back by a refill, and the quarantine is not over since then."""


class Redis(NamedTuple):
    """One Redis server."""

    held: Held = Held()
    inc: int = 0
    older: frozenset[Held] = frozenset()
    """What a lossy server may fall back to."""

    @property
    def of_call(self) -> Place:
        return Place(self.held.nonce, self.inc, self.held.call)

    @property
    def of_reply(self) -> Place:
        decision = self.held.reply
        reply = None if decision is None else Rec("done", None, "head", "read", text=decision)
        return Place(self.held.nonce, self.inc, reply)


class Request(NamedTuple):
    """A request on its way to the downstream."""

    sender: int
    fp: int
    fence: int


class Budget(NamedTuple):
    """How often what is rare may still happen."""

    timeouts: int = 0
    ambiguous: int = 0
    refusals: int = 0
    unrecorded: int = 0
    redis_faults: int = 0
    resets: int = 0
    continues: int = 0
    retries: int = 0
    """How often a person may say `retry`."""


class State(NamedTuple):
    """The whole world."""

    left: Budget
    workflow: Workflow = Workflow()
    redis: tuple[Redis, ...] = (Redis(),)
    attempts: tuple[Attempt, ...] = ()
    requests: tuple[Request, ...] = ()
    effects: tuple[int, ...] = (0, 0)
    """How often the effect happened, by decision."""
    answers: tuple[int, ...] = (0, 0)
    """The downstream's first answer, by idempotency key; 0: none."""
    seals: tuple[int, ...] = (0, 0)
    """The lowest fence that the downstream takes, by decision."""
    told: frozenset[tuple[int, Kind, Any]] = frozenset()
    """What workflows were told of calls, in every branch."""
    points: frozenset[Workflow] = frozenset()
    """Where a reset can go back to."""
    first_witness: Wit | None = None
    """In the history of the original run."""
    lost: bool = False
    """Redis had a fault."""
    doubt_earned: bool = False
    truth: Hashable = None
    """The decision whose `done` is recorded."""
    truth_forgotten: bool = False
    nonces: int = 0
    doubts: int = 0
    fences: int = 0
    calls: int = 0

    def attempt(self) -> Attempt | None:
        """The attempt whose result counts."""
        return next((a for a in self.attempts if a.id == self.workflow.attempt), None)

    def put(self, me: Attempt, **changed: Any) -> "State":
        """Replace one attempt, and what else changes with it."""
        attempts = tuple(me if other.id == me.id else other for other in self.attempts)
        return self._replace(attempts=attempts, **changed)

    def spend(self, name: str) -> "State":
        """Use up one of the budget."""
        return self._replace(left=self.left._replace(**{name: getattr(self.left, name) - 1}))


Labelled = Iterator[tuple[str, State]]


@dataclass(frozen=True)
class Guards:
    """The rules of a run outside the ledger's table; each one that is switched is a mutant."""

    restore_makes_nonce: bool = False
    call_witness_renewed: bool = False
    continue_keeps_lineage: bool = True
    pending_attempt_knows_of_reset: bool = True
    workflow_retries: bool = False
    """[mutant] Temporal retries the workflow: what a reset does, without its lineage."""
    fp_in_key: bool = True
    quarantine: bool = True
    """A doubt is settled as failed, or to retry, only when nothing can land any more."""
    person_waits: bool = True
    """What counts is when the person looked and spoke, not when their word is carried out."""
    quarantine_counts_anew: bool = True
    """A refill that brings a doubt back begins its quarantine again."""
    absent_resolve_is_gap: bool = True
    stale_resolve_is_gap: bool = True
    """A doubt that history does not know gives way to the one that it knows."""
    refill_before_begin: bool = True
    unrecorded_refusal_is_weighed: bool = True
    """A refusal that Redis was not told of is told as failed only where nobody else may send."""
    limits_excused: bool = True
    """The known limits are no violations."""


NOTHING, RIGHT_GUARDS, RIGHT_RULES = Budget(), Guards(), Rules()


@dataclass(frozen=True)
class Case:
    """One line of the matrix: an effect class, a server, and what may happen."""

    cls: str
    strict: bool = True
    faults: tuple[str, ...] = ("flush",)
    budget: Budget = NOTHING
    decisions: int = 1
    """How many calls Claude may decide between, asked again."""
    calls: int = 4
    """Attempts of the call after which a branch is cut."""
    guards: Guards = RIGHT_GUARDS
    rules: Rules = RIGHT_RULES

    @cached_property
    def ledger(self) -> Protocol:
        """The ledger's table for the call."""
        return Protocol(self.cls, self.strict, rules=self.rules)

    @cached_property
    def replies(self) -> Protocol:
        """The ledger's table for Claude's reply."""
        return Protocol("read", self.strict, claude=True, rules=self.rules)


def replaced(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """The same tuple with another value at one index."""
    return (*values[:at], value, *values[at + 1 :])


def write(case: Case, state: State, server: int, **held: Any) -> State:
    """Write to one Redis; a lossy one may fall back to what it held before."""
    redis = state.redis[server]
    after = redis._replace(held=redis.held._replace(**held))
    if after == redis:
        return state
    if not case.strict and state.left.redis_faults:
        after = after._replace(older=redis.older | {redis.held})
    state = state._replace(redis=replaced(state.redis, server, after))
    call = after.held.call
    # With two primaries there are two truths.
    known = call is not None and call.st == "done" and len(state.redis) == 1
    return state._replace(truth=call.fp) if call and known else state
