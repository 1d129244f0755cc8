"""Gather what history and ledger know of a run, compare them if asked, and print it."""

from dataclasses import replace

from onward.audit import report
from onward.audit.comparing import differences
from onward.audit.effects import Sources, effects
from onward.audit.held import Held, read_held
from onward.audit.report import Report
from onward.audit.timeline import Timeline
from onward.audit.unknown import not_known
from onward.client import Run, rpc_errors
from onward.console import Output
from onward.errors import ConnectError
from onward.ledger import Ledger
from onward.messages import RunRef
from onward.own_history import Told
from onward.redis_connection import ledger_url, redis_client, redis_errors
from onward.session import Session, find_run, open_session

AGREE, DIFFER, NOT_COMPARED = 0, 1, 3


async def audit(run_id: str, out: Output, *, verify: bool, reads: bool) -> int:
    """Print every effect of a run; with `verify`, whether ledger and history agree.

    Returns 0; with `verify` 1 where anything differs or is lost, 3 where Redis cannot be asked.
    Raises NoSuchRun, UsageError, ConnectError (of Temporal).
    """
    session = await open_session(out)
    run = await find_run(session, run_id)
    timeline, told = await _history(session, run)
    # After history: what goes on meanwhile is ahead in the ledger, never behind.
    held = await _held(session, run)
    seen = _report(run, timeline, told, held, verify=verify, reads=reads)
    report.show(seen, out)
    if not verify:
        return AGREE
    return {True: AGREE, False: DIFFER, None: NOT_COMPARED}[seen.verified]


async def _history(session: Session, run: Run) -> tuple[Timeline, Told]:
    timeline, told = Timeline(session.client), Told(session.client)
    handle = session.client.get_workflow_handle(run.id, run_id=run.run_id)
    async with rpc_errors(run.id):
        async for event in handle.fetch_history_events():
            await timeline.hear(event)
            await told.hear(event)
    return timeline, told


async def _held(session: Session, run: Run) -> Held | str:
    """Read the records in Redis; or say why it cannot be asked."""
    url = ledger_url(session.settings, session.target)
    redis = redis_client(url)
    first = run.first_run_id or run.run_id
    of = RunRef(
        workflow_id=run.id, first_run_id=first, run_id=run.run_id, original_run_id=run.run_id
    )
    try:
        async with redis_errors(url):
            return await read_held(redis, Ledger(redis, of, strict=False).key)
    except ConnectError as error:
        return str(error)
    finally:
        await redis.aclose()


def _report(
    run: Run, timeline: Timeline, told: Told, held: Held | str, *, verify: bool, reads: bool
) -> Report:
    found = held if isinstance(held, Held) else None
    sources = Sources(timeline.calls, told.records, found, run.pending, timeline.closed)
    rows = effects(sources, reads=reads)
    seen = Report(run, rows, not_known(timeline, held, rows))
    if found is None or not verify:
        return seen
    differing = differences(told, timeline.calls, found, closed=timeline.closed)
    return replace(seen, differences=differing, compared=len(told.records))
