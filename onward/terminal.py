"""What a command writes to: a terminal, or a file or pipe that looks like none."""

import os
import unicodedata
from typing import IO, Literal

from rich.console import Console
from rich.text import Text

_KEPT_CONTROLS = {"\n", "\t"}
_TURNS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Kinds of characters that put others into another order: an approver must see what is there."""
_ONE_BYTE = 0xFF


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

    def print_line(self, text: str, style: str = "") -> None:
        """Write a line, however long it is."""
        self.print(Text(self.clean(text), style=style), soft_wrap=True)

    def clean(self, text: str) -> str:
        """Spell out what would steer a terminal; of a file or pipe nothing is changed."""
        # What Claude or a tool wrote must not steer the terminal of the person who reads it.
        return visible(text) if self.is_terminal else text


def visible(text: str) -> str:
    """Show what steers a terminal, or turns the order of what is read, instead of sending it."""
    return "".join(c if c in _KEPT_CONTROLS or not _steers(c) else _spelt(c) for c in text)


def _steers(character: str) -> bool:
    turns = unicodedata.bidirectional(character) in _TURNS
    return turns or unicodedata.category(character) == "Cc"


def _spelt(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= _ONE_BYTE else f"\\u{code:04x}"
