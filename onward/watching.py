"""Look at a run again and again until it has begun, or ended."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowHistoryEventFilterType
from temporalio.service import RPCError

from onward import history
from onward.errors import ConnectError
from onward.history import Ended
from onward.messages import Opening
from onward.reports import Report, report
from onward.runs import Pending, Run, describe, ended, look, rpc_errors

BEGIN_WITHIN_S = 2.0
_POLL_S = 0.1
_LONG_S = 300
"""From here on a wait is told in minutes."""


@dataclass(frozen=True)
class Beginning:
    """What became of a run in its first moments."""

    run: Run
    opening: Opening | None = None
    """What is fixed for the whole run; None: it has not begun."""
    ended: Ended | None = None


@dataclass(frozen=True)
class Look:
    """One look at a run."""

    report: Report | None
    """None: Temporal did not answer."""
    troubles: tuple[str, ...] = ()
    """What holds the run up right now, a sentence each."""


async def beginning(client: Client, run: Run) -> Beginning:
    """Wait up to 2 s for the run to begin, or to end because it cannot."""
    deadline = asyncio.get_running_loop().time() + BEGIN_WITHIN_S
    while True:
        async with rpc_errors(run.id):
            recorded = await history.recorded(client, run.key)
        now = await describe(client, run.id)
        done = await ended(client, now)
        late = asyncio.get_running_loop().time() > deadline
        if recorded.opening is not None or done is not None or late:
            return Beginning(now, recorded.opening, done)
        await asyncio.sleep(_POLL_S)


async def watch(client: Client, run: Run, *, every_s: float) -> AsyncGenerator[Look, None]:
    """Look at the run every `every_s` seconds, and once more when it has ended.

    A Temporal that is away is a trouble, no error: the run goes on when it is back.
    """
    closed = asyncio.create_task(_closed(client, run))
    try:
        while True:
            seen = await _look(client, run)
            yield seen
            if seen.report is not None:
                if seen.report.ended is not None:
                    return
                if seen.report.run.run_id != run.run_id:  # it continued as new
                    closed.cancel()
                    closed = asyncio.create_task(_closed(client, seen.report.run))
                run = seen.report.run
            await asyncio.wait({closed}, timeout=every_s)
            if closed.done():
                await asyncio.sleep(_POLL_S)
    finally:
        closed.cancel()


def troubles(seen: Report, *, now: datetime | None = None) -> tuple[str, ...]:
    """Say what holds the run up: no worker, or an activity that fails and is tried again."""
    if seen.ended is not None:
        return ()
    own = () if seen.live else (seen.trouble or "no worker answers",)
    return (*own, *failing_activities(seen.run, now=now))


def failing_activities(run: Run, *, now: datetime | None = None) -> tuple[str, ...]:
    """Say which activities of the run fail and are tried again, and when."""
    moment = now or datetime.now(UTC)
    return tuple(filter(None, (_failing(each, moment) for each in run.pending)))


async def _look(client: Client, run: Run) -> Look:
    try:
        now = await describe(client, run.id)
        if now.first_run_id != run.first_run_id:  # the id was started again: ours has ended
            now = await look(client, run.id, run.run_id)
        seen = await report(client, now)
    except ConnectError as error:
        return Look(None, (str(error),))
    return Look(seen, troubles(seen))


async def _closed(client: Client, run: Run) -> None:
    """Return when the run has closed; the server answers then, without being asked again."""
    handle = client.get_workflow_handle(run.id, run_id=run.run_id)
    close = WorkflowHistoryEventFilterType.CLOSE_EVENT
    try:
        async for _ in handle.fetch_history_events(wait_new_event=True, event_filter_type=close):
            return
    except RPCError:
        await asyncio.Event().wait()  # the regular looks go on


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _LONG_S else f"{seconds / 60:.0f} min"


def _failing(pending: Pending, now: datetime) -> str | None:
    if not pending.last_failure:
        return None
    seconds = (pending.next_try - now).total_seconds() if pending.next_try is not None else 0
    when = f"next try in {_span(seconds)}" if seconds > 1 else f"attempt {pending.attempt} is next"
    if pending.running:
        when = f"attempt {pending.attempt} is under way"
    return f"{pending.name}: {pending.last_failure.rstrip('.')}; {when}"
