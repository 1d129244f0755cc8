"""The model of a run, searched: every interleaving of each case, and the mutants that must show.

`-m long` searches the whole matrix: each case is a test, so that it runs in parallel, and `--lf`
resumes it.
"""

import pytest
from run_cases import MATRIX, QUICK, case
from run_mutants import MUTANTS
from run_world import Run
from search import Found, explore


def _story(found: Found) -> str:
    return "\n  ".join((f"{found.violation}, after", *found.trace))


@pytest.mark.parametrize("line", QUICK)
def test_a_run_stays_true_to_its_effect(line: str) -> None:
    """Whatever fails and when: no effect twice, no word that is not so, no needless doubt."""
    found = explore(Run(case(line)))
    assert found.violation is None, _story(found)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("line", [line for line in MATRIX if line not in QUICK])
def test_a_run_stays_true_to_its_effect_in_every_case(line: str) -> None:
    """The same, in larger mixes of faults."""
    found = explore(Run(case(line)))
    assert found.violation is None, _story(found)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_run_is_caught(name: str) -> None:
    """Every rule is needed, and the search sees it: without it, this very promise breaks.

    Of a limit: the promise that is not made, because it would break.
    """
    mutant = MUTANTS[name]
    found = explore(Run(mutant.case))
    assert found.violation == mutant.violation, _story(found)


def test_the_quick_cases_are_of_the_matrix() -> None:
    """The whole matrix is what the quick cases and the long ones cover together."""
    assert set(QUICK) <= set(MATRIX)
    assert len(set(MATRIX)) == len(MATRIX)
