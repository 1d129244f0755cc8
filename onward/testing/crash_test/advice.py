"""What to do about a broken promise, in the words of the tool's author."""

from onward.messages import EffectClass
from onward.testing.crash_test.trial import Outcome
from onward.testing.crash_test.verdict import Problem

_REPEATED: dict[EffectClass, str] = {
    "keyed": (
        "the service did not take the repeated request for the same one. Hand ctx.idempotency_key "
        "to it, in the request that has the effect. If it knows no keys, the tool is at_most_once"
    ),
    "transactional": (
        "effect and key were not written in one transaction. Insert ctx.idempotency_key, under a "
        "unique constraint, and the effect before one and the same commit"
    ),
    "sealed": (
        "the service acted on a fence that had been sealed off, or seal() did not see the effect. "
        "Send ctx.fence with the request, and have the service compare it and act in one "
        "transaction; seal() must look by ctx.idempotency_key"
    ),
    "timed": (
        "a request took effect after check() had found nothing. Bound every request in time (a "
        "deadline that the service enforces), make settle_s longer than that, and have check() "
        "look by ctx.idempotency_key"
    ),
    "at_most_once": (
        "the tool repeats its request by itself. Switch retries off, in it and in its client: "
        "after a lost reply let the exception through"
    ),
}

_ADVICE: dict[Problem, str] = {
    "changes": (
        "a read may run any number of times, so it must change nothing. Declare what this tool is: "
        'effect="keyed" if the service takes an idempotency key, else "at_most_once"'
    ),
    "lost": (
        "the tool returned as if it were done. Let it raise where the service did not confirm, "
        "and never store a key before its effect. If the effect did happen, the probe does not see "
        "it: does the input hold {unique} where the service tells one job from another?"
    ),
    "denied": (
        "the tool raised what means `certainly did nothing` (Rejected, an HTTP 4xx) although it "
        "happened. Raise Rejected only on the service's own word; let every other exception through"
    ),
    "nothing": "a call must come to an end: see its last failure above, and timeout_s",
}


def advice(effect: EffectClass, outcome: Outcome, problem: Problem) -> str:
    """Say what to do."""
    if not outcome.fault.point and problem in {"repeated", "doubt", "failed"}:
        return _without_fault(outcome, problem)
    if problem == "repeated":
        return _REPEATED[effect]
    if problem in {"doubt", "failed"}:
        return (
            f"a repeated call must come to its end; Claude was told {outcome.answer.text}. Repeat "
            "the same request: the same key and the same body, no clock and no chance in it; and "
            "answer a repeat with the first result"
        )
    return _ADVICE[problem]


def _without_fault(outcome: Outcome, problem: Problem) -> str:
    if problem == "repeated":
        return (
            f"one call alone had {outcome.effects} effects, with no fault at all. Make one request "
            "for each call; if the probe counts other inputs too, count this one's only"
        )
    return (
        f"the tool does not work with this input: Claude was told {outcome.answer.text}. Nothing "
        "was struck yet"
    )
