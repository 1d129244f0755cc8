"""What waits for people over all runs: calls, doubts, limits, and runs that somebody paused."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from temporalio.client import Client

from onward.listing.finding import at_once, runs_of
from onward.listing.which import Which
from onward.messages import Paused, Waiting
from onward.names import AGENT, STATUS, WAITING
from onward.runs import Report, Run, report
from onward.search_attributes import usable

_INDEX_TELLS = {AGENT, STATUS, WAITING}


@dataclass(frozen=True)
class Waits:
    """What waits, of runs newest first."""

    calls: Sequence[tuple[Run, Waiting]]
    paused: Sequence[tuple[Run, Paused]]
    unanswered: Sequence[Report]
    """Of runs that may wait, but whose worker does not answer."""


async def waits(client: Client, which: Which, limit: int) -> Waits:
    """Ask the newest running runs that may wait what they wait for. Raises ConnectError."""
    known = await usable(client)
    query = f"{which.query(known)} AND {_may_wait(known)}"
    found = [run for run in await runs_of(client, query) if which.means(run)]
    newest = sorted(found, key=lambda run: run.started, reverse=True)[:limit]
    reports = await at_once(lambda run: report(client, run), newest)
    return Waits(
        calls=[(seen.run, call) for seen in reports for call in seen.status.waiting],
        paused=[(seen.run, seen.status.paused) for seen in reports if seen.status.paused],
        unanswered=[seen for seen in reports if not seen.live],
    )


def _may_wait(known: Collection[str]) -> str:
    """Leave out what the index knows to wait for nobody: each run left costs its worker a query."""
    if not {*known} >= _INDEX_TELLS:
        return "CloseTime IS NULL"
    # Of a run of before 0.5 it knows no status; of one that began without attributes, nothing.
    untold = f"({STATUS} IS NULL AND {AGENT} IS NULL)"
    waits = f"{WAITING} IS NOT NULL OR {STATUS} IN ('waiting', 'paused')"
    return f"CloseTime IS NULL AND ({waits} OR {untold})"
