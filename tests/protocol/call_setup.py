"""What is explored: an effect class, a kind of Redis, a mix of faults; and how to get it wrong."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from call_state import Attempt, Call, Faults, Primary
from ledger_model import Protocol, Rules

RedisFault = Literal["flush", "empty restart", "restart", "tail loss", "split brain"]

KEEPS_KEYS = ("keyed", "transactional")
"""Classes whose downstream answers a second request under the same key with the first result."""


class Mix(NamedTuple):
    """What may go wrong."""

    faults: Faults
    strict: bool = True
    redis: tuple[RedisFault, ...] = ()
    """What `faults.redis` may be."""
    most_attempts: int = 4


@dataclass(frozen=True)
class Conduct:
    """What is not the ledger's but the worker's, the workflow's, or a person's to do right."""

    deletes_on_exception: bool = False
    """[mutant] A tool that raised leaves no record."""
    seals: bool = True
    """`sealed` seals before it sends what an earlier attempt may have sent."""
    seals_when_lossy: bool = True
    """On a lossy server it always does: another primary may have claimed as well."""
    waits_for_drain: bool = True
    """`timed` checks when nothing that was sent before can arrive any more."""
    trusts_first_attempt: bool = False
    """[mutant] An attempt with number 1 needs no witness."""
    refreshes_witness_on_reset: bool = False
    """[mutant] The new branch takes for its witness what is there."""
    begins_on_reset: bool = False
    """[mutant] The new branch makes the birth nonce again that was lost."""
    believes_unrecorded_refusals: bool = False
    """[mutant] A refusal is told as `failed` where Redis cannot be asked what else was sent."""
    retries_without_quarantine: bool = False
    """[mutant] A person who sees no effect says "retry" at once."""


RIGHT_RULES, RIGHT_CONDUCT = Rules(), Conduct()


@dataclass(frozen=True)
class Setup:
    """One line of the matrix, or a mutant of it."""

    cls: str
    mix: Mix
    rules: Rules = RIGHT_RULES
    conduct: Conduct = RIGHT_CONDUCT
    failed_is_for_ever: bool = False
    """[limit] Ask that `failed` stays true even where the ledger's records are lost."""

    @property
    def sends_once(self) -> bool:
        return self.cls == "at_most_once" and not self.rules.amo_takeover

    @property
    def believes_unrecorded_refusal(self) -> bool:
        """A read did nothing; a call that was sent once and refused did nothing either."""
        return self.cls == "read" or self.sends_once or self.conduct.believes_unrecorded_refusals

    @cached_property
    def _protocol(self) -> Protocol:
        return Protocol(self.cls, self.mix.strict, rules=self.rules)

    def protocol(self, i: int) -> Protocol:
        """Return the ledger's operations as attempt `i` uses them."""
        if self.conduct.trusts_first_attempt and i == 0:
            return replace(self._protocol, rules=replace(self.rules, absent_fresh=True))
        return self._protocol

    # ---- equal futures are equal states

    def canonical(self, call: Call) -> Call:
        """Forget what can decide nothing any more."""
        attempts = tuple(self._attempt(call, i) for i in range(len(call.attempts)))
        waiting = {i for i, attempt in enumerate(attempts) if attempt.stage == "waits"}
        replies = frozenset(reply for reply in call.replies if reply[0] in waiting)
        primaries = tuple(self._primary(call, primary) for primary in call.primaries)
        return _fences_ranked(
            call._replace(attempts=attempts, replies=replies, primaries=primaries)
        )

    def _attempt(self, call: Call, i: int) -> Attempt:
        attempt = call.attempts[i]
        if attempt.stage == "reports" and not call.waits_for(i):
            attempt = Attempt("gone", attempt.fence)
        if attempt.stage == "gone" and attempt.fence and i not in call.in_flight:
            return Attempt("gone")
        return attempt

    def _primary(self, call: Call, primary: Primary) -> Primary:
        records_return = not self.mix.strict and call.left.redis
        return primary if records_return or not primary.older else Primary(primary.place)


def _fences_ranked(call: Call) -> Call:
    """Only the order of fences counts."""
    rank = {fence: position for position, fence in enumerate(sorted(call.fences))}
    if all(fence == position for fence, position in rank.items()):
        return call
    attempts = tuple(attempt._replace(fence=rank[attempt.fence]) for attempt in call.attempts)
    primaries = tuple(primary.fences_ranked(rank) for primary in call.primaries)
    return call._replace(attempts=attempts, primaries=primaries, sealed=rank[call.sealed])
