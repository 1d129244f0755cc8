"""List runs, as a person asks for it: check, find, and print."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onward.commands import NOT_CONNECTED
from onward.console import Output
from onward.documents import run_document
from onward.errors import UsageError
from onward.figures import count
from onward.invoked import program
from onward.listing import rows
from onward.listing.finding import Sort, amount, find
from onward.listing.waiting import Waits, waits
from onward.listing.which import STATES, Which
from onward.run_input import checked_agent
from onward.session import open_session
from onward.tags import parse_tags


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """What `list` was asked for, as typed; None where nothing was."""

    agent: str | None = None
    status: str | None = None
    tags: Sequence[str] = ()
    sort: Sort | None = None
    limit: int = 20


async def list_runs(options: ListOptions, out: Output) -> int:
    """List the newest runs that are as asked for, or those with most of `sort`.

    Raises UsageError, ConnectError.
    """
    which, sort = _which(options), options.sort or "started"
    session = await open_session(out)
    found = await find(session.client, which, sort=sort, limit=options.limit)
    if out.as_json:
        out.json({"runs": [run_document(run) for run in found]})
    elif found:
        out.table(rows.COLUMNS, [rows.row(run) for run in found])
    else:
        none = "no runs yet" if which == Which() else "no run is like that"
        out.say(f"{none}; or Temporal has forgotten them after the namespace's retention")
    if untold := sum(amount(run, sort) is None for run in found):
        out.note(f"the {sort} of {count(untold, 'run')} is not known to Temporal's index: last")
    return 0


async def list_waiting(options: ListOptions, out: Output) -> int:
    """List what waits for people over all runs; exit 3 if one's worker is away.

    Raises UsageError, ConnectError.
    """
    if options.sort or options.status:
        raise UsageError("--sort and --status are not for --waiting, which lists the newest first")
    which = _which(options)
    session = await open_session(out)
    found = await waits(session.client, which, options.limit)
    for run, trouble in found.unanswered:
        out.warn(f"{run.id}: {trouble}")
    if out.as_json:
        out.json(_document(found))
    else:
        _show(found, out)
    return NOT_CONNECTED if found.unanswered else 0


def _which(options: ListOptions) -> Which:
    if options.limit < 1:
        raise UsageError(f"--limit is {options.limit}; it must be at least 1")
    if options.status is not None and options.status not in STATES:
        raise UsageError(f"--status is {options.status!r}; expected one of: {', '.join(STATES)}")
    return Which(
        agent="" if options.agent is None else checked_agent(options.agent),
        state=options.status or "",
        tags=parse_tags(options.tags),
    )


def _document(found: Waits) -> dict[str, Any]:
    return {
        "waiting": [rows.waiting_document(*each) for each in found.calls],
        "paused": [rows.paused_document(*each) for each in found.paused],
        "unanswered": [run.id for run, _ in found.unanswered],
    }


def _show(found: Waits, out: Output) -> None:
    shown = [rows.waiting_row(*each) for each in found.calls]
    shown += [rows.unanswered_row(run) for run, _ in found.unanswered]
    shown += [rows.paused_row(*each) for each in found.paused]
    if not shown:
        out.say("no run waits for a person")
        return
    out.table(rows.WAITING_COLUMNS, shown)
    for run, call in found.calls:
        out.note(f"{run.id} {call.call}: {rows.call_answer(run, call)}")
    for run, _ in found.paused:
        out.note(f"{run.id}: {rows.paused_answer(run)}")
    if any(call.kind != "limit" for _, call in found.calls):
        out.note(f"whole input: `{program()} status RUN`")
