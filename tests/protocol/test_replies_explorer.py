"""The model of Claude's replies, searched."""

import pytest
from ledger_model import Rules
from replies import OTHER_TRANSCRIPT, OTHER_TURN, Budget, Replies
from search import NO_PROGRESS, explore

_SMALL = Budget(timeouts=1, wipes=1, resets=1)
_MUTANTS = {
    "a reply is adopted without a look at its digest": (
        OTHER_TRANSCRIPT,
        Replies(_SMALL, Rules(fp_check=False)),
    ),
    "the turn is frozen by a call of its own": (
        OTHER_TURN,
        Replies(_SMALL, freezes_in_claim=False),
    ),
    "a reply leaves its turn out": (NO_PROGRESS, Replies(_SMALL, Rules(complete_turn=False))),
}


@pytest.mark.parametrize(
    "budget",
    [
        Budget(timeouts=2, wipes=1, resets=1),
        Budget(timeouts=1, wipes=1, resets=1, redos=1),
        pytest.param(Budget(timeouts=2, wipes=1, resets=1, redos=1), marks=pytest.mark.long),
        pytest.param(Budget(timeouts=1, wipes=2, resets=2), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_a_reply_answers_the_turn_of_its_own_conversation(budget: Budget) -> None:
    """No branch gets another's reply, no reply another's turn, and every step gets one."""
    found = explore(Replies(budget))
    assert found.violation is None, found.trace


@pytest.mark.parametrize("name", _MUTANTS)
def test_a_broken_reply_is_caught(name: str) -> None:
    """Every rule is needed, and the search sees it."""
    violation, world = _MUTANTS[name]
    found = explore(world)
    assert found.violation == violation, found.trace
