"""The model of the lifetime of a run's hash, searched."""

import pytest
from janitor import LOST, Janitor
from search import NO_PROGRESS, explore

_MUTANTS = {
    "an operation leaves the expiry": (LOST, Janitor(operations_persist=False)),
    "the janitor leaves the expiry of an open run": (LOST, Janitor(sweep_persists_open_runs=False)),
    "the janitor asks for the first run of a chain": (
        LOST,
        Janitor(asks_for_the_current_run=False),
    ),
    "each sweep sets the expiry anew": (NO_PROGRESS, Janitor(sets_expiry_once=False)),
}


def test_a_run_that_lives_keeps_its_records() -> None:
    """No expiry strikes an open run, and that of an ended one comes at last."""
    found = explore(Janitor())
    assert found.violation is None, found.trace
    assert set(found.endings) == {"expired", "open"}


@pytest.mark.parametrize("name", _MUTANTS)
def test_a_broken_janitor_is_caught(name: str) -> None:
    """Every rule is needed, and the search sees it."""
    violation, world = _MUTANTS[name]
    found = explore(world)
    assert found.violation == violation, found.trace
