"""`cancel`: of a run, or of all open runs of an agent, as in an incident."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from onward.client.saying import claimed_name, signal
from onward.console import Output
from onward.documents import run_document
from onward.errors import OnwardError, UsageError
from onward.figures import count
from onward.invoked import typed
from onward.listing import Which, find, rows
from onward.listing.finding import at_once
from onward.messages import CancelRequest
from onward.run_input import checked_agent
from onward.runs import Run
from onward.session import Session, open_session
from onward.steering import one_run

_LAG_S = 1.0
"""How late Temporal's index may be: a run that has just begun is found in the next look."""
_MOST_LOOKS = 20
"""Whatever starts runs faster than they are stopped has to be stopped first."""


@dataclass(frozen=True, kw_only=True)
class CancelOptions:
    """What `cancel` was asked for, as typed."""

    agent: str | None = None
    every: bool = False
    after_step: bool = False
    reason: str = ""
    by: str = ""
    dry_run: bool = False
    yes: bool = False


@dataclass(frozen=True)
class _Asked:
    """What became of asking one run."""

    run: Run
    cancelling: bool = False
    """False: it had ended, or could not be asked."""
    error: str = ""


@dataclass
class _Stop:
    """All open runs of one agent, asked to end."""

    session: Session
    agent: str
    request: CancelRequest
    asked: dict[tuple[str, datetime], _Asked] = field(
        default_factory=dict[tuple[str, datetime], _Asked]
    )

    async def open_runs(self) -> list[Run]:
        """Find those that nobody has asked yet. Raises ConnectError."""
        found = await find(self.session.client, Which(agent=self.agent, going=True))
        return [run for run in found if _key(run) not in self.asked]

    async def cancel(self, first: Sequence[Run]) -> None:
        """Ask these, and then those that have begun meanwhile."""
        late = first
        for _ in range(_MOST_LOOKS):
            told = await at_once(self._ask, late)
            self.asked.update({_key(each.run): each for each in told})
            await asyncio.sleep(_LAG_S)
            if not (late := await self.open_runs()):
                return
        self.session.out.warn(
            f"new runs of agent {self.agent!r} begin as fast as they are stopped. Stop what starts "
            "them, and say it again"
        )

    async def _ask(self, run: Run) -> _Asked:
        try:
            return _Asked(run, await signal(self.session.client, run, "cancel", self.request))
        except OnwardError as error:
            return _Asked(run, error=str(error))


async def cancel(run_id: str | None, options: CancelOptions, out: Output) -> int:
    """Ask a run to end, or with `--agent` and `--all` every open one; exit 1 if one was not asked.

    Raises UsageError, NoSuchRun, ConnectError.
    """
    if run_id is None and options.agent is not None and options.every:
        return await _cancel_all(options, checked_agent(options.agent), out)
    wide = options.agent is not None or options.every or options.dry_run or options.yes
    if run_id is None or wide:
        raise UsageError(
            f"name either a run or all of an agent: `{typed('cancel')} RUN`, or "
            f"`{typed('cancel')} --agent NAME --all` (with --dry-run to look first)"
        )
    return await one_run.cancel(
        run_id, options.reason, out, after_step=options.after_step, by=options.by
    )


async def _cancel_all(options: CancelOptions, agent: str, out: Output) -> int:
    request = CancelRequest(
        reason=options.reason, after_step=options.after_step, by=options.by or claimed_name()
    )
    stop = _Stop(await open_session(out), agent, request)
    found = await stop.open_runs()
    if not out.as_json:
        _show(agent, found, out)
    if options.dry_run or not found:
        _tell(stop, found, out, dry_run=options.dry_run)
        return 0
    if not options.yes:
        await _confirm(found)
    await stop.cancel(found)
    _tell(stop, found, out, dry_run=False)
    return 1 if any(each.error for each in stop.asked.values()) else 0


def _key(run: Run) -> tuple[str, datetime]:
    # The same in each workflow run of a chain, and another where the id was started again.
    return run.id, run.started


async def _confirm(found: Sequence[Run]) -> None:
    these = "this run" if len(found) == 1 else f"these {len(found):,} runs"
    if not sys.stdin.isatty():
        raise UsageError(
            f"nobody is there to confirm that {these} shall be cancelled; nothing was done. "
            "Add --yes, or --dry-run to look only"
        )
    sys.stderr.write(f"Cancel {these}? [y/N] ")
    sys.stderr.flush()
    if (await _line()).strip().lower() not in {"y", "yes"}:
        raise UsageError("not confirmed; nothing was done")


async def _line() -> str:
    """Read a line as it is typed. Read in the loop itself, Ctrl-C would not end it."""
    loop = asyncio.get_running_loop()
    typed_in = asyncio.Event()
    loop.add_reader(sys.stdin, typed_in.set)
    try:
        await typed_in.wait()
        return sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)


# ---- what is told


def _show(agent: str, found: Sequence[Run], out: Output) -> None:
    if found:
        out.table(rows.COLUMNS, [rows.row(run) for run in found])
    else:
        out.say(f"no run of an agent {agent!r} is open; nothing was done")


def _tell(stop: _Stop, found: Sequence[Run], out: Output, *, dry_run: bool) -> None:
    asked = [*stop.asked.values()]
    for each in asked:
        if each.error:
            out.warn(f"{each.run.id}: {each.error}")
    if out.as_json:
        out.json(_document(stop, asked or [*map(_Asked, found)], dry_run=dry_run))
    elif dry_run and found:
        out.say(f"{count(len(found), 'run')} would be cancelled; nothing was done")
    elif asked:
        out.say(_summary(asked, after_step=stop.request.after_step))
        out.note(
            f"`{typed('list', '--agent', stop.agent)}` shows how they end; "
            f"`{typed('pause', '--agent', stop.agent)}` stops the effects of runs that begin later"
        )


def _summary(asked: Sequence[_Asked], *, after_step: bool) -> str:
    cancelling = sum(each.cancelling for each in asked)
    failed = sum(bool(each.error) for each in asked)
    when = one_run.when_it_ends(after_step=after_step)
    said = [f"asked {count(cancelling, 'run')} to stop: each ends {when}"]
    if ended := len(asked) - cancelling - failed:
        said.append(f"{ended:,} had ended already")
    if failed:
        said.append(f"{failed:,} could not be asked: say it again")
    return "; ".join(said)


def _document(stop: _Stop, asked: Sequence[_Asked], *, dry_run: bool) -> dict[str, Any]:
    runs = [
        {**run_document(each.run), "cancelling": each.cancelling, "error": each.error}
        for each in asked
    ]
    return {"agent": stop.agent, "dry_run": dry_run, "runs": runs}
