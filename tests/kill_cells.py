"""The kill matrix's cells, and how each may end (docs/guarantees.md, "When a worker dies")."""

from dataclasses import dataclass
from typing import Literal, Self, get_args

from onward.failpoints import POINTS
from onward.messages import EffectClass
from onward.names import CALL_CLAUDE

Action = Literal["kill", "pause", "raise"]
Told = Literal["done", "failed", "in_doubt"]

ACTIONS: tuple[Action, ...] = get_args(Action)
TOOLS: dict[EffectClass, str] = {
    "read": "look_up",
    "keyed": "refund",
    "transactional": "book_refund",
    "at_most_once": "pay_out",
    "sealed": "sealed_refund",
    "timed": "timed_refund",
}
# From its claim to its record, nobody can know of an `at_most_once` call whether it happened. The
# books say that it did from f6 on. A zombie that was paused before that may send its request late.
_HAPPENED = {"f2": 0, "f3": 0, "f4": 0, "f5": 0, "f6": 1, "f7": 1, "f8": 1}
_IN_TOOL = ("f4", "f5", "f6", "f7")


@dataclass(frozen=True)
class Cell:
    """A point, the class of the call that is struck there, and what happens to its worker."""

    point: str
    effect: EffectClass
    action: Action

    def __str__(self) -> str:
        return f"{self.point}:{self.effect}:{self.action}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `f6:keyed:kill`. Raises KeyError where there is no such cell."""
        return {str(cell): cell for cell in cls.all()}[text]

    @classmethod
    def all(cls) -> list[Self]:
        """Return all 216."""
        return [
            cls(point, effect, action) for action in ACTIONS for point in POINTS for effect in TOOLS
        ]

    @property
    def tool(self) -> str:
        """The tool of `crash_app.py` that is called."""
        return TOOLS[self.effect]

    @property
    def activity(self) -> str:
        """The activity that is struck: a read is part of the step that asks for it."""
        return CALL_CLAUDE if self.effect == "read" else self.tool

    @property
    def holds_lock(self) -> bool:
        """A process that is paused here holds a lock that its successor waits for."""
        inside = self.effect == "transactional" and self.point in {"f5", "f6"}
        return inside and self.action == "pause"

    @property
    def told(self) -> Told:
        """What Claude must be told of the call."""
        if self.effect == "at_most_once" and self.point in _HAPPENED:
            return "in_doubt"
        raised = self.action == "raise" and self.point in _IN_TOOL
        return "failed" if self.effect == "read" and raised else "done"

    @property
    def effects(self) -> set[int]:
        """How many effects the books may show."""
        if self.effect == "read":
            return {0}
        if self.told == "done":
            return {1}
        happened = _HAPPENED[self.point]
        return {happened, 1} if self.action == "pause" else {happened}
