"""What waits for people over all runs: calls, doubts, limits, and runs that somebody paused."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from temporalio.client import Client

from onward.figures import count
from onward.listing.finding import at_once, runs_of
from onward.listing.which import Which
from onward.messages import Paused, Waiting
from onward.names import AGENT, STATUS, WAITING
from onward.reports import Report, report
from onward.runs import Run
from onward.search_attributes import usable

_INDEX_TELLS = {AGENT, STATUS, WAITING}
_SILENT = 8
"""Runs of a task queue that got no answer, and none that got one, after which no more are asked."""


@dataclass(frozen=True)
class Waits:
    """What waits, of runs newest first."""

    calls: Sequence[tuple[Run, Waiting]]
    paused: Sequence[tuple[Run, Paused]]
    unanswered: Sequence[tuple[Run, str]]
    """Runs that may wait, but whose worker does not answer, and why."""


async def waits(client: Client, which: Which, limit: int) -> Waits:
    """Ask the newest running runs that may wait what they wait for. Raises ConnectError."""
    known = await usable(client)
    query = f"{which.query(known)} AND {_may_wait(known)}"
    found = [run for run in await runs_of(client, query) if which.means(run)]
    newest = sorted(found, key=lambda run: run.started, reverse=True)[:limit]
    answers = await at_once(_Asking(client).ask, newest)
    seen = [answer for answer in answers if isinstance(answer, Report)]
    both = zip(newest, answers, strict=True)
    return Waits(
        calls=[(each.run, call) for each in seen for call in each.status.waiting],
        paused=[(each.run, each.status.paused) for each in seen if each.status.paused],
        unanswered=[(run, answer) for run, answer in both if isinstance(answer, str)],
    )


class _Asking:
    """Asks the workers of runs, as long as somebody answers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._silent = Counter[str]()

    async def ask(self, run: Run) -> Report | str:
        """Return how the run goes, or why nobody says."""
        queue = run.task_queue
        # Each that is not answered takes seconds: hundreds of them, minutes.
        if (silent := self._silent[queue]) >= _SILENT:
            return f"not asked: of task queue {queue!r}, {count(silent, 'run')} got no answer"
        seen = await report(self._client, run)
        self._silent[queue] = 0 if seen.live else self._silent[queue] + 1
        return seen if seen.live else seen.trouble or "no worker answers"


def _may_wait(known: Collection[str]) -> str:
    """Leave out what the index knows to wait for nobody: each run left costs its worker a query."""
    if not {*known} >= _INDEX_TELLS:
        return "CloseTime IS NULL"
    # Of a run of before 0.5 it knows no status; of one that began without attributes, nothing.
    untold = f"({STATUS} IS NULL AND {AGENT} IS NULL)"
    waits = f"{WAITING} IS NOT NULL OR {STATUS} IN ('waiting', 'paused')"
    return f"CloseTime IS NULL AND ({waits} OR {untold})"
