"""Did a trial keep the promise of the tool's class? Judged by the probe and Claude's answer alone.

The promises are those of docs/guarantees.md.
"""

from typing import Literal

from onward.messages import EffectClass
from onward.testing.crash_test.faults import Fault
from onward.testing.crash_test.trial import Outcome

Problem = Literal["changes", "repeated", "lost", "denied", "doubt", "failed", "nothing"]
"""How a promise is broken:

changes   a `read` had an effect
repeated  it happened more than once
lost      Claude was told that it is done, and it did not happen
denied    Claude was told that it failed, and it happened
doubt     it is in doubt, where it need not be
failed    it did not happen, and Claude was told so, where the class promises that it happens
nothing   the run came to no end
"""

PROMISES: dict[EffectClass, str] = {
    "read": "no effect, and one result",
    "keyed": "exactly one effect, and Claude is told that it is done",
    "transactional": "exactly one effect, and Claude is told that it is done",
    "sealed": "exactly one effect, and Claude is told that it is done",
    "timed": "exactly one effect, and Claude is told that it is done",
    "at_most_once": (
        "at most one effect; told done only if it happened, failed only if it did not, and in doubt"
        " only where it was struck between claim and record"
    ),
}

_BETWEEN_CLAIM_AND_RECORD = {*(f"f{number}" for number in range(2, 9)), "line", "moment"}


def judge(effect: EffectClass, outcome: Outcome) -> Problem | None:
    """Name what is wrong; None: the promise held."""
    return _by_probe(effect, outcome) or _by_answer(effect, outcome)


def _by_probe(effect: EffectClass, outcome: Outcome) -> Problem | None:
    effects, told = outcome.effects, outcome.answer.told
    if effect == "read":
        return "changes" if effects else None
    if effects > 1:
        return "repeated"
    if told == "failed" and effects:
        return "denied"
    return "lost" if told == "done" and not effects else None


def _by_answer(effect: EffectClass, outcome: Outcome) -> Problem | None:
    told = outcome.answer.told
    if told == "doubt":
        unknowable = outcome.struck and outcome.fault.point in _BETWEEN_CLAIM_AND_RECORD
        return None if effect == "at_most_once" and unknowable else "doubt"
    if told == "failed":
        return None if _may_fail(effect, outcome.fault) else "failed"
    return "nothing" if told == "nothing" else None


def _may_fail(effect: EffectClass, fault: Fault) -> bool:
    """Say whether the fault is a reason for an honest `it failed`."""
    if effect == "read":  # every exception of a read goes to Claude
        return fault.action == "cut"
    return effect == "at_most_once" and fault.action != "none"
