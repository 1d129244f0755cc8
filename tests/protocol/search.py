"""Breadth-first search: every state that a world can reach, or the shortest way to a bad one.

Safety: no reachable state has a violation. Progress: from every reachable state, fair moves lead to
an end. A move is fair if it needs no luck: no further fault, nobody but who must act.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)

CUT = "cut"
"""The ending of a branch that is longer than the search goes. It is not followed further."""
NO_PROGRESS = "no progress"
LIMIT = "more states than the limit"


class Move(NamedTuple, Generic[S]):
    """One thing that can happen next."""

    label: str
    state: S
    fair: bool = False
    """Progress may count on it."""


class World(Protocol[S]):
    """What is explored."""

    def start(self) -> S: ...

    def moves(self, state: S, /) -> Iterable[Move[S]]: ...

    def violation(self, state: S, /) -> str | None:
        """Name the property that the state breaks."""
        ...

    def ending(self, state: S, /) -> str | None:
        """Name how the story ends in this state, if it may: it can go on all the same."""
        ...


@dataclass
class Found:
    """What a search found."""

    violation: str | None
    """None: every state was seen, and all are good."""
    trace: tuple[str, ...]
    """The labels of the moves from the start to the violation."""
    states: int
    endings: Counter[str]


class _Seen(Generic[S]):
    """The states reached so far, how each was reached first, and what leads to it fairly."""

    def __init__(self, start: S) -> None:
        self.came_from: dict[S, tuple[S, str] | None] = {start: None}
        self.fairly_from: dict[S, list[S]] = {}
        self.ended: list[S] = []
        self.endings: Counter[str] = Counter()

    def trace(self, state: S) -> tuple[str, ...]:
        labels: list[str] = []
        while step := self.came_from[state]:
            state, label = step
            labels.append(label)
        return tuple(reversed(labels))

    def found(self, violation: str | None, at: S | None = None) -> Found:
        trace = () if at is None else self.trace(at)
        return Found(violation, trace, len(self.came_from), self.endings)

    def without_progress(self) -> S | None:
        """Find a state from which fair moves lead to no end, the one nearest to the first."""
        good, todo = set(self.ended), deque(self.ended)
        while todo:
            for before in self.fairly_from.get(todo.popleft(), ()):
                if before not in good:
                    good.add(before)
                    todo.append(before)
        return next((state for state in self.came_from if state not in good), None)


def explore(world: World[S], limit: int = 3_000_000) -> Found:
    """Visit every reachable state, nearest first, until one has a violation."""
    start = world.start()
    seen, todo = _Seen(start), deque([start])
    while todo:
        state = todo.popleft()
        if violation := world.violation(state):
            return seen.found(violation, state)
        todo.extend(_visit(world, state, seen))
        if len(seen.came_from) > limit:
            return seen.found(LIMIT)
    lost = seen.without_progress()
    return seen.found(None) if lost is None else seen.found(NO_PROGRESS, lost)


def _visit(world: World[S], state: S, seen: _Seen[S]) -> list[S]:
    """Note how the state ends and where it leads; return what is new."""
    if ending := world.ending(state):
        seen.ended.append(state)
        seen.endings[ending] += 1
    new: list[S] = []
    for label, after, fair in world.moves(state) if ending != CUT else ():
        if fair:
            seen.fairly_from.setdefault(after, []).append(state)
        if after not in seen.came_from:
            seen.came_from[after] = (state, label)
            new.append(after)
    return new
