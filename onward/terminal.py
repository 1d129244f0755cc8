"""What a command writes to: a terminal, or a file or pipe that looks like none."""

import os
from typing import IO, Literal

from rich.console import Console


class Stream(Console):
    """Writes text as it is; with styles where a terminal shows them, and NO_COLOR is not set."""

    def __init__(self, file: IO[str] | None = None) -> None:
        # Rich itself would leave bold and dim letters; those are hard to read for the very people
        # who want no colours.
        styles: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
        super().__init__(file=file, color_system=styles, highlight=False, emoji=False, markup=False)

    def on_broken_pipe(self) -> None:
        """Let a reader that went away end the command: rich would exit with 1, as for a failure."""
        raise BrokenPipeError
