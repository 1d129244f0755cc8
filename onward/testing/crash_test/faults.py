"""What can be done to a worker in one trial, and how the worker is told of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onward.failpoints import POINTS
from onward.testing.crash_test.names import LINE_ENV, MOMENT_ENV
from onward.testing.crash_test.recording import Line

Action = Literal["none", "kill", "pause", "cut"]
"""SIGKILL; SIGSTOP past the lease, until a successor has acted; the connection breaks."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault. Either at a numbered point, or before a line, or at a moment of the call."""

    action: Action
    point: str = ""
    """`f1` to `f12`, `line` or `moment`; empty without a fault."""
    nth: int = 1
    """Which pass of a numbered point."""
    request: int = 0
    """Which request of the tool that is, from 1; 0: not at a request."""
    line: Line | None = None
    after_s: float = 0.0
    """Of a moment: seconds after the tool began."""

    @property
    def env(self) -> Mapping[str, str]:
        """Environment in which a worker suffers it."""
        action = "raise" if self.action == "cut" else self.action
        if self.line:
            path, number = self.line
            return {LINE_ENV: f"{action}:{number}:{path}"}
        if self.point == "moment":
            return {MOMENT_ENV: f"{self.after_s:.6f}"}
        return {"FP": f"{self.point}:{self.nth}:{action}"} if self.point else {}

    def __str__(self) -> str:
        if not self.point:
            return "no fault"
        if self.line:
            path, number = self.line
            return f"{self.action} before line {number} of {Path(path).name}"
        if self.point == "moment":
            return f"kill at a random moment: {self.after_s * 1000:.1f} ms"
        which = f" (request {self.request})" if self.request else ""
        return f"{self.action} {self.point}: {POINTS[self.point]}{which}"


NO_FAULT = Fault(action="none")
