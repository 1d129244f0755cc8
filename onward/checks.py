"""What a look at one thing found, for `onward doctor`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["ok", "note", "wrong", "away"]
"""All well; works, but worth knowing; must be mended; the server does not answer."""


@dataclass(frozen=True)
class Check:
    """What one look found."""

    name: str
    state: State
    found: str
    todo: str = ""
    """What to do about it."""
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same for programs."""

    def __str__(self) -> str:
        return f"{self.found}. {self.todo}" if self.todo else self.found
