"""Gather what history and ledger know of a run, compare them if asked, and print it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from onward.audit import report
from onward.audit.comparing import differences
from onward.audit.effects import Sources, effects
from onward.audit.held import Held, held_of
from onward.audit.recalled import recalled
from onward.audit.report import Report
from onward.audit.timeline import Timeline
from onward.audit.unknown import not_known
from onward.chain import chain_before
from onward.console import Output
from onward.errors import ConnectError, PayloadError, UsageError
from onward.history import RunKey, request_of
from onward.listing import Which, find
from onward.messages import RunRef
from onward.own_history import Hearing, Told
from onward.runs import Run, look, rpc_errors
from onward.session import Session, find_run, open_session
from onward.tags import parse_tags

AGREE, DIFFER, NOT_COMPARED = 0, 1, 3


@dataclass(frozen=True)
class _Heard:
    """What history says of a run."""

    timeline: Timeline
    told: Told
    forgotten: str
    """Run id of the newest workflow run of the chain that Temporal no longer keeps; or empty."""


async def audit(
    run_id: str | None, out: Output, *, tags: Sequence[str] = (), verify: bool, reads: bool
) -> int:
    """Print every effect of a run, or of all that have the `tags`.

    Returns 0. With `verify` it says whether ledger and history agree, and returns 1 where anything
    differs or is lost, 3 where Redis cannot be asked, or a part of history not be read.
    Raises NoSuchRun, UsageError, ConnectError (of Temporal).
    """
    if (run_id is None) == (not tags):
        raise UsageError("give the id of a run or, for all runs that have it, --tag order=1042")
    if run_id is None:
        return await _audit_tagged(parse_tags(tags), out, verify=verify, reads=reads)
    session = await open_session(out)
    seen = await _audited(session, await find_run(session, run_id), verify=verify, reads=reads)
    report.show(seen, out)
    return _code([seen]) if verify else AGREE


async def _audit_tagged(tags: Mapping[str, str], out: Output, *, verify: bool, reads: bool) -> int:
    session, seen = await open_session(out), list[Report]()
    found = await find(session.client, Which(tags=tags))
    for run in reversed([run for run in found if not run.reset]):
        whole = await look(session.client, run.id, run.run_id)  # with what it does right now
        seen.append(await _audited(session, whole, verify=verify, reads=reads))
    report.show_all(seen, tags, out)
    return _code(seen) if verify else AGREE


def _code(seen: Sequence[Report]) -> int:
    verified = {each.verified for each in seen}
    return DIFFER if False in verified else NOT_COMPARED if None in verified else AGREE


async def _audited(session: Session, run: Run, *, verify: bool, reads: bool) -> Report:
    heard = await _history(session, run)
    # After history: what goes on meanwhile is ahead in the ledger, never behind.
    held = await _held(session, run)
    return _report(run, heard, held, verify=verify, reads=reads)


async def _history(session: Session, run: Run) -> _Heard:
    client = session.client
    timeline = Timeline(client)
    async with rpc_errors(run.id):
        # Read once: both must hear the same, while the run goes on.
        newest = [event async for event in _events(client, run.key)]
        told = await _told(client, newest, timeline)
        chain = await chain_before(client, run.key)
        if chain.forgotten and not timeline.lost:
            await _recall(client, run, timeline, told)
        for key in chain.earlier:
            async for event in _events(client, key):
                await timeline.hear(event)
        for event in newest:
            await timeline.hear(event)
    return _Heard(timeline, told, chain.forgotten)


async def _told(client: Client, events: Sequence[HistoryEvent], timeline: Timeline) -> Told:
    """Return how calls ended; where a payload is lost, nothing: what follows builds on it."""
    hearing = Hearing(client)
    try:
        for event in events:
            await hearing.hear(event)
        return await hearing.told()
    except PayloadError as error:
        timeline.lost.append(str(error))
        return Told()


def _events(client: Client, key: RunKey) -> AsyncIterator[HistoryEvent]:
    return client.get_workflow_handle(key.id, run_id=key.run_id).fetch_history_events()


async def _recall(client: Client, run: Run, timeline: Timeline, told: Told) -> None:
    """Let the timeline know the calls of which only segments still tell."""
    request = await request_of(client, run.key)
    if request is None or request.carried is None:
        return
    asked_by = _ref(run).model_copy(update={"deployment": request.deployment or client.namespace})
    copied_steps = request.carried.opening.copied_steps
    timeline.calls.update(recalled(told.earlier, asked_by, copied_steps=copied_steps))


def _ref(run: Run) -> RunRef:
    first = run.first_run_id or run.run_id
    return RunRef(
        workflow_id=run.id, first_run_id=first, run_id=run.run_id, original_run_id=run.run_id
    )


async def _held(session: Session, run: Run) -> Held | str:
    """Read the records in Redis; or say why it cannot be asked."""
    try:
        return await held_of(session, run)
    except ConnectError as error:
        return str(error)


def _report(run: Run, heard: _Heard, held: Held | str, *, verify: bool, reads: bool) -> Report:
    timeline, told = heard.timeline, heard.told
    found = held if isinstance(held, Held) else None
    sources = Sources(
        timeline.calls, told.records, found, run.pending, timeline.closed, timeline.copied_steps
    )
    rows = effects(sources, reads=reads)
    unknown = not_known(timeline, held, rows, forgotten=heard.forgotten)
    seen = Report(run, rows, unknown, timeline.parent, timeline.copied_steps)
    if found is None or timeline.lost or not verify:
        return seen
    differing = differences(
        told, timeline.calls, found, closed=timeline.closed, was_reset=timeline.was_reset
    )
    return replace(seen, differences=differing, compared=len(told.records))
