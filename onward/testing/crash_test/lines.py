"""Points between the lines of a tool, for one whose requests pass no socket of Python's.

A database driver in C, a subprocess, a file: between which two of its statements such a tool has
its effect nobody can see from outside, so it is killed between any two.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from onward.testing.crash_test.recording import Line


class LineTap:
    """Sees which lines of one file a thread runs, each when it is first reached."""

    def __init__(self, path: str, reached: Callable[[Line], None]) -> None:
        self._path, self._reached = path, reached
        self._seen: dict[Line, None] = {}

    @property
    def lines(self) -> tuple[Line, ...]:
        """Lines that were reached, in that order."""
        return tuple(self._seen)

    def start(self) -> None:
        """Watch the calling thread: every function that it enters from now on."""
        sys.settrace(self._entered)

    @staticmethod
    def stop() -> None:
        """Leave the calling thread alone."""
        sys.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self._line if frame.f_code.co_filename == self._path else None

    def _line(self, frame: FrameType, event: str, _arg: Any) -> Any:
        line = (self._path, frame.f_lineno)
        if event == "line" and line not in self._seen:
            self._seen[line] = None
            self._reached(line)
        return self._line
