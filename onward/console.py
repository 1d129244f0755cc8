"""Everything that commands print, but the picture of the demo.

Results go to standard output, everything about them to standard error, so that
`RUN=$(onward start "…")` and `… result "$RUN" > answer.txt` do what one expects.
With `--json` standard output is exactly one JSON document (of `watch`, one a line). Colours,
bold letters and moving parts are for terminals only, styles never with NO_COLOR.
"""

import json
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

from onward.terminal import Stream, visible
from onward.wording import Troubles

_GAP = 2
"""Blanks between two columns of a table."""
_LEAST_TEXT = 8
"""Letters that a column of text keeps in a narrow terminal."""
_STATE_STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red", "away": "bold red"}


class Progress(Protocol):
    """A line that says how far a run is, until it is done."""

    def now(self, line: str, troubles: Sequence[str]) -> None:
        """Show the line, and each trouble that was not there before."""


class Output:
    """The two streams of a command."""

    def __init__(self, *, as_json: bool = False) -> None:
        """Print for a person, or with `as_json` one JSON document for a program."""
        self.as_json = as_json
        self._out, self._err = Stream(sys.stdout), Stream(sys.stderr)

    @property
    def watched(self) -> bool:
        """A person sees standard error as it is written."""
        return self._err.is_terminal

    def note(self, text: str) -> None:
        """Say something beside the result."""
        self._err.print_line(text, "dim")

    def say(self, text: str) -> None:
        """Say something beside the result that matters."""
        self._err.print_line(text, "")

    def warn(self, text: str) -> None:
        """Say what holds something up, or what a person should know."""
        self._err.print_line(text, "yellow")

    def error(self, text: str) -> None:
        """Say why the command did nothing."""
        self._err.print_line(f"error: {text}", "bold red")

    def result(self, text: str) -> None:
        """Print the result itself."""
        self._out.print_line(text, "")

    def styled(self, text: str, style: str) -> None:
        """Print a line of the result, in a style where a terminal shows it."""
        self._out.print_line(text, style)

    def written(self, text: str, style: str = "") -> None:
        """Write a piece of a line of the result, in a style where a terminal shows it."""
        self._out.print(Text(self._out.clean(text), style=style), end="", soft_wrap=True)

    def piece(self, text: str) -> None:
        """Write a piece of the result as it is, without an end of line."""
        self._out.file.write(text)

    def json(self, document: Mapping[str, Any]) -> None:
        """Print the one JSON document."""
        # Plain ASCII: no terminal, locale or lone surrogate can spoil it.
        self._out.file.write(json.dumps(document, indent=2, default=str) + "\n")

    def json_line(self, document: Mapping[str, Any]) -> None:
        """Print one of many JSON documents, a line each, at once."""
        self._out.file.write(json.dumps(document, default=str) + "\n")
        self._out.file.flush()

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print names and values, a line each; empty values are left out."""
        shown = [(name, value) for name, value in facts if value]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            line = Text(f"{name:<{width}}  ", style="bold" if self._out.is_terminal else "")
            self._out.print(line.append(self._out.clean(value), "not bold"), soft_wrap=True)

    def checks(self, checks: Iterable[tuple[str, str, str]]) -> None:
        """Print what was looked at, a line each: its state, its name, what was found."""
        rows = list(checks)
        width = max((len(name) for _, name, _ in rows), default=0)
        for state, name, found in rows:
            line = Text.assemble((f"{state:<5}", _STATE_STYLES[state]), f"  {name:<{width}}  ")
            self._out.print(line.append(self._out.clean(found)), soft_wrap=True)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, figures: int = 0
    ) -> None:
        """Print a table on a terminal; else a line a row, with tabs, nothing cut off.

        The last `figures` columns are numbers: they stay whole where others are cut. On a terminal
        too narrow for that, each row is told in a paragraph of its own.
        """
        if not self._out.is_terminal:
            for row in rows:
                cells = ("".join(" " if c in "\t\n" else c for c in cell) for cell in row)
                self._out.file.write("\t".join(cells) + "\n")
            return
        widths = self._column_widths(columns, rows, figures)
        if widths is None:
            self._rows_apart(columns, rows)
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
            if place >= len(columns) - figures:
                table.add_column(column, width=width, justify="right")
            elif place == 0 or figures:
                table.add_column(column, width=width, overflow="fold")
            else:
                table.add_column(column, width=width, no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*(Text(self._out.clean(cell)) for cell in row))
        self._out.print(table)

    def _rows_apart(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        for first, *rest in rows:
            self._out.print_line(first, "bold")
            told = (f"{name} {cell}" for name, cell in zip(columns[1:], rest, strict=True) if cell)
            text = Text(self._out.clean(" · ".join(told)))
            self._out.print(Padding(text, (0, 0, 0, _GAP)))

    def _column_widths(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], figures: int
    ) -> list[int] | None:
        """Share the line among the columns; None where it is too short for them."""
        cells = list(zip(columns, *rows, strict=True))
        names = len(columns) - figures
        # The first column is what one copies: it stays whole while there is half a line for it.
        least = [len(columns[0]) if figures else self._out.width // 2]
        least += [_LEAST_TEXT for _ in cells[1:names]]
        least += [_widest((*heading.split(), *column)) for heading, *column in cells[names:]]
        room = self._out.width - _GAP * (len(columns) - 1)
        widths = _fitted([_widest(column) for column in cells], least, room)
        return widths if sum(widths) <= room else None

    @contextmanager
    def progress(self) -> Generator[Progress, None, None]:
        """Show how far a run is: a moving line on a terminal, else only what holds it up."""
        if not self._err.is_terminal:
            yield _Lines(self)
            return
        with self._err.status(Text("…"), spinner="dots") as status:
            yield _Moving(self, status)

    def flush(self) -> None:
        """Write out what is buffered."""
        self._out.file.flush()
        self._err.file.flush()


def _widest(cells: Iterable[str]) -> int:
    return max(map(len, cells))


def _fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Take away what is too much, from the last column first; none becomes narrower than `least`.

    Rich would take as much from each, so that short columns, a cost for instance, were gone.
    """
    excess, fitted = max(sum(widths) - room, 0), list[int]()
    for width, low in zip(reversed(widths), reversed(least), strict=True):
        spared = min(excess, max(width - low, 0))
        fitted.insert(0, width - spared)
        excess -= spared
    return fitted


class _Lines:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._troubles = Troubles()

    def now(self, line: str, troubles: Sequence[str]) -> None:
        del line
        for text in self._troubles.new(troubles):
            self._output.warn(text)


class _Moving:
    def __init__(self, output: Output, status: Status) -> None:
        self._output, self._status = output, status

    def now(self, line: str, troubles: Sequence[str]) -> None:
        text = Text(visible(line))
        for trouble in troubles:
            text.append(f"\n  {visible(trouble)}", "yellow")
        self._status.update(text)
