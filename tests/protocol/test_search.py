"""The search that every proof here rests on."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from search import CUT, LIMIT, NO_PROGRESS, Move, explore


@dataclass
class Graph:
    """A world that is given by its edges, from state 0. An edge to a negative state is not fair."""

    edges: dict[int, list[int]]
    bad: set[int] = field(default_factory=set[int])
    ends: dict[int, str] = field(default_factory=dict[int, str])

    def start(self) -> int:
        return 0

    def moves(self, state: int) -> Iterator[Move[int]]:
        for after in self.edges.get(state, ()):
            yield Move(f"to {abs(after)}", abs(after), fair=after > 0)

    def violation(self, state: int) -> str | None:
        return "bad" if state in self.bad else None

    def ending(self, state: int) -> str | None:
        return self.ends.get(state)


def test_the_shortest_way_to_a_violation_is_told() -> None:
    """A trace is as short as it can be: somebody must understand it."""
    found = explore(Graph({0: [1, 2], 1: [3], 2: [4], 3: [4]}, bad={4}))
    assert (found.violation, found.trace) == ("bad", ("to 2", "to 4"))


def test_a_state_from_which_only_luck_leads_to_an_end_is_no_progress() -> None:
    """A protocol that waits for a further fault would hang a run for ever."""
    found = explore(Graph({0: [1], 1: [-2]}, ends={2: "done"}))
    assert (found.violation, found.trace) == (NO_PROGRESS, ())


def test_a_state_with_no_way_on_is_no_progress() -> None:
    """A protocol that is stuck is not taken for one that holds."""
    found = explore(Graph({0: [1, 2]}, ends={1: "done"}))
    assert (found.violation, found.trace) == (NO_PROGRESS, ("to 2",))


def test_an_end_may_go_on_and_a_cut_may_not() -> None:
    """What comes after an end (a reset) is explored; what is cut off is counted."""
    graph = Graph({0: [1], 1: [-2, -3], 2: [4]}, bad={4}, ends={1: "done", 2: CUT, 3: "done"})
    found = explore(graph)
    assert found.violation is None
    assert found.endings == {"done": 2, CUT: 1}


def test_a_search_that_stops_early_says_so() -> None:
    """A search that did not see everything never passes for a proof."""
    endless = Graph({state: [state + 1] for state in range(100)})
    assert explore(endless, limit=10).violation == LIMIT
