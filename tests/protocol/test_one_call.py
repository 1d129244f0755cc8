"""The protocol of one call holds in every interleaving of every mix of faults, and no mutant does.

The conformance test holds the Lua script against the same model: together they prove the script,
within the bounds of the mixes. CI runs a selection; the whole matrix is `long`.
"""

from dataclasses import dataclass

import pytest
from call_setup import RIGHT_CONDUCT, RIGHT_RULES, Conduct, Mix, RedisFault, Setup
from call_state import Faults
from ledger_model import Rules
from one_call import DOUBLE_FIRE, NOT_FAILED, TWO_RESULTS, OneCall
from search import Found, explore

CLASSES = ("read", "keyed", "transactional", "at_most_once", "sealed", "timed")

WHOLE: tuple[RedisFault, ...] = ("flush", "empty restart", "restart")
TAIL: tuple[RedisFault, ...] = ("tail loss", "restart")
SPLIT: tuple[RedisFault, ...] = ("split brain",)
ANY: tuple[RedisFault, ...] = ("flush", "empty restart", "restart", "tail loss", "split brain")

UNCLEAR, CLEAR = Faults(), Faults(unclear=0)
"""One timeout, with and without an answer that does not come."""

MIXES = {
    "two timeouts, a lost reply": Mix(Faults(timeouts=2, lost_replies=1)),
    "a lost reply, an outage": Mix(UNCLEAR._replace(lost_replies=1, outages=1)),
    "a refusal, not sent": Mix(UNCLEAR._replace(refusals=1, not_sent=1)),
    "a refusal, not sent, 3 attempts": Mix(
        UNCLEAR._replace(refusals=1, not_sent=1), most_attempts=3
    ),
    "a refusal, an outage": Mix(CLEAR._replace(refusals=1, outages=1)),
    "two resets": Mix(CLEAR._replace(resets=2)),
    "a reset, all lost once, an outage": Mix(
        CLEAR._replace(resets=1, redis=1, outages=1), redis=WHOLE
    ),
    "a refusal, a late claim": Mix(UNCLEAR._replace(refusals=1, late_claims=1), most_attempts=3),
    "all lost twice, a late claim, a refusal": Mix(
        CLEAR._replace(redis=2, late_claims=1, refusals=1), redis=WHOLE
    ),
    "tail lost twice": Mix(UNCLEAR._replace(redis=2), strict=False, redis=TAIL),
    "a reset, tail lost once": Mix(CLEAR._replace(resets=1, redis=1), strict=False, redis=TAIL),
    "a split, a late claim": Mix(CLEAR._replace(redis=1, late_claims=1), strict=False, redis=SPLIT),
    "a split, 3 attempts": Mix(CLEAR._replace(redis=1), strict=False, redis=SPLIT, most_attempts=3),
    "two timeouts, a split": Mix(Faults(timeouts=2, unclear=0, redis=1), strict=False, redis=SPLIT),
    "anything twice, an outage": Mix(CLEAR._replace(redis=2, outages=1), strict=False, redis=ANY),
    "anything once, an outage, a late claim": Mix(
        CLEAR._replace(redis=1, outages=1, late_claims=1),
        strict=False,
        redis=ANY,
        most_attempts=3,
    ),
}
IN_CI = {
    **dict.fromkeys(
        ("read", "keyed", "sealed"),
        ("a refusal, not sent, 3 attempts", "anything once, an outage, a late claim"),
    ),
    "transactional": ("a refusal, an outage",),
    "at_most_once": tuple(MIXES),
    "timed": ("a refusal, an outage", "a split, 3 attempts"),
}
"""For each class what is done within a second or two."""


def _matrix() -> list[object]:
    """Every class with every mix; what takes long is marked so."""
    long = (pytest.mark.long, pytest.mark.timeout(1800))
    return [
        pytest.param(cls, mix, marks=() if mix in IN_CI[cls] else long, id=f"{cls}: {mix}")
        for cls in CLASSES
        for mix in MIXES
    ]


def _found(setup: Setup) -> Found:
    found = explore(OneCall(setup))
    print(f"{found.states} states, {dict(found.endings)}: {' | '.join(found.trace)}")  # noqa: T201
    return found


@pytest.mark.parametrize(("cls", "mix"), _matrix())
def test_a_call_happens_once_at_most_and_history_is_told_the_truth(cls: str, mix: str) -> None:
    """No interleaving fires twice, tells a lie, doubts without need, or never ends."""
    found = _found(Setup(cls, MIXES[mix]))
    assert found.violation is None
    assert found.endings["done"], "the search never came to a call that was done"


PLAIN = Mix(UNCLEAR)


@dataclass(frozen=True)
class Mutant:
    """A way to get the protocol wrong, with the smallest mix that shows it."""

    cls: str
    violation: str
    mix: Mix = PLAIN
    rules: Rules = RIGHT_RULES
    conduct: Conduct = RIGHT_CONDUCT
    failed_is_for_ever: bool = False


ONE_SPLIT = Mix(CLEAR._replace(redis=1), strict=False, redis=SPLIT)
MUTANTS = {
    "at_most_once fires again when the lease is over": Mutant(
        "at_most_once", DOUBLE_FIRE, rules=Rules(amo_takeover=True)
    ),
    "a tool that raised leaves no record": Mutant(
        "at_most_once", DOUBLE_FIRE, conduct=Conduct(deletes_on_exception=True)
    ),
    "absent is fresh: a flush": Mutant(
        "at_most_once",
        DOUBLE_FIRE,
        Mix(UNCLEAR._replace(redis=1), redis=("flush",)),
        Rules(absent_fresh=True),
    ),
    "absent is fresh: a lost tail": Mutant(
        "at_most_once",
        DOUBLE_FIRE,
        Mix(UNCLEAR._replace(redis=1), strict=False, redis=("tail loss",)),
        Rules(absent_fresh=True),
    ),
    "a witness without the server's incarnation": Mutant(
        "at_most_once",
        DOUBLE_FIRE,
        Mix(UNCLEAR._replace(redis=1), strict=False, redis=("tail loss",)),
        Rules(witness=False),
    ),
    "the first attempt needs no witness": Mutant(
        "at_most_once",
        DOUBLE_FIRE,
        Mix(CLEAR._replace(redis=2), strict=False, redis=("restart", "split brain")),
        conduct=Conduct(trusts_first_attempt=True),
    ),
    "the last result wins": Mutant(
        "read", TWO_RESULTS, Mix(CLEAR._replace(resets=1)), Rules(overwrite=True)
    ),
    "a zombie may record its failure": Mutant(
        "keyed",
        NOT_FAILED,
        Mix(UNCLEAR._replace(refusals=1)),
        Rules(own_check=False, ms_rule=False),
    ),
    "a refusal counts though an earlier request may land": Mutant(
        "keyed", NOT_FAILED, Mix(UNCLEAR._replace(refusals=1)), Rules(ms_rule=False)
    ),
    "sealed without the seal": Mutant("sealed", DOUBLE_FIRE, conduct=Conduct(seals=False)),
    "timed checks before all is settled": Mutant(
        "timed", DOUBLE_FIRE, conduct=Conduct(waits_for_drain=False)
    ),
    "a reset takes the witness that is there": Mutant(
        "at_most_once",
        DOUBLE_FIRE,
        Mix(CLEAR._replace(resets=1, redis=1), strict=False, redis=("tail loss",)),
        conduct=Conduct(refreshes_witness_on_reset=True),
    ),
    "a reset makes the lost nonce again": Mutant(
        "at_most_once",
        DOUBLE_FIRE,
        Mix(CLEAR._replace(resets=1, redis=1), redis=("flush",)),
        conduct=Conduct(begins_on_reset=True),
    ),
    "sealed seals no trusted first claim": Mutant(
        "sealed", DOUBLE_FIRE, ONE_SPLIT, conduct=Conduct(seals_when_lossy=False)
    ),
    "timed checks where it must doubt": Mutant(
        "timed", DOUBLE_FIRE, ONE_SPLIT, Rules(timed_doubt=False)
    ),
    "limit: failed, records lost, a zombie lands": Mutant(
        "keyed",
        NOT_FAILED,
        Mix(UNCLEAR._replace(redis=1, refusals=1), redis=("flush",)),
        failed_is_for_ever=True,
    ),
    "a refusal counts under another claim": Mutant(
        "sealed",
        NOT_FAILED,
        Mix(UNCLEAR._replace(refusals=1, late_claims=1)),
        Rules(fence_check=False),
    ),
    "a person retries without quarantine": Mutant(
        "at_most_once", DOUBLE_FIRE, conduct=Conduct(retries_without_quarantine=True)
    ),
    "a refusal is believed that could not be recorded": Mutant(
        "keyed",
        NOT_FAILED,
        MIXES["a refusal, an outage"],
        conduct=Conduct(believes_unrecorded_refusals=True),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_explorer_sees_every_way_to_get_it_wrong(name: str) -> None:
    """A protocol that would fire twice or lie does not pass: the search can see."""
    mutant = MUTANTS[name]
    found = _found(
        Setup(mutant.cls, mutant.mix, mutant.rules, mutant.conduct, mutant.failed_is_for_ever)
    )
    assert found.violation == mutant.violation
