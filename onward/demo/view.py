"""Shows the demo while it runs: on a terminal a picture that changes, elsewhere a line a fact."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onward.demo.chase import Snapshot, View
from onward.terminal import Stream

_EVERY_STEPS = 10


@contextmanager
def view(*, silent: bool) -> Generator[View]:
    """Choose: nothing with `--json`, a live picture on a terminal, lines elsewhere."""
    if silent:
        yield Silence()
    elif sys.stdout.isatty():
        # On stderr nothing is drawn over: logs of ours are shown above the picture by rich.
        with Live(console=Stream(), refresh_per_second=10, transient=False) as live:
            yield Picture(live)
    else:
        yield Lines()


class Silence:
    """Shows nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Do nothing."""


class Lines:
    """Prints a line when there is something new."""

    def __init__(self) -> None:
        self._begun = self._resumed = self._killed = 0
        self._finished = -1

    def show(self, snapshot: Snapshot) -> None:
        """Print kills, resumptions and every tenth step."""
        for struck in snapshot.struck[self._killed :]:
            _say(f"kill -9 of pid {struck.pid}, {struck.where}")
            self._killed += 1
        for seconds in snapshot.resumed_s[self._resumed :]:
            if seconds is None:
                break
            _say(f"resumed: the next request came after {seconds:.2f} s")
            self._resumed += 1
        if snapshot.finished // _EVERY_STEPS != self._finished // _EVERY_STEPS:
            _say(f"{snapshot.finished} of {snapshot.steps} steps: {snapshot.saying}")
        self._finished = snapshot.finished


class Picture:
    """Draws steps, kills, resumptions and spend."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._began = time.monotonic()

    def show(self, snapshot: Snapshot) -> None:
        """Draw the newest."""
        self._live.update(self._drawn(snapshot))

    def _drawn(self, snapshot: Snapshot) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column()
        rows.add_row("step", _steps(snapshot))
        rows.add_row("Claude", Text(snapshot.saying, overflow="ellipsis", no_wrap=True))
        rows.add_row("requests", f"{snapshot.requests} to Claude")
        if snapshot.cost_usd is not None:
            rows.add_row("spend", f"${snapshot.cost_usd:.4f}")
        for number in range(snapshot.kills):
            rows.add_row(f"kill {number + 1}", _kill(snapshot, number))
        if snapshot.ui_url:
            rows.add_row("watch", Text(snapshot.ui_url, style="cyan", no_wrap=True))
        title = Text(f"{snapshot.title}   {time.monotonic() - self._began:5.1f} s", style="bold")
        return Group(title, rows)


def _steps(snapshot: Snapshot) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=snapshot.steps, completed=snapshot.finished, width=40)
    row.add_row(bar, f"{snapshot.finished} of {snapshot.steps}")
    return row


def _kill(snapshot: Snapshot, number: int) -> Text:
    if number >= len(snapshot.struck):
        return Text("planned", style="dim")
    struck, resumed = snapshot.struck[number], snapshot.resumed_s[number]
    after = "waiting for the next worker" if resumed is None else f"resumed after {resumed:.2f} s"
    return Text.assemble(
        ("kill -9 ", "bold red"),
        f"pid {struck.pid}, {struck.where}  ",
        (after, "yellow" if resumed is None else "green"),
    )


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  (the demo's output)
