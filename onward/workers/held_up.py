"""Open runs that do not get on, and why: each may wait for good reason, all of them rarely do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client

from onward import history
from onward.checks import Check, State
from onward.errors import NoSuchRun
from onward.figures import count
from onward.invoked import typed
from onward.listing.finding import at_once, runs_of
from onward.listing.which import Which
from onward.reports import code_fails
from onward.runs import Run, look, rpc_errors
from onward.watching import failing_activities

LOOKED_AT = 50
"""The newest open runs of a task queue: a fault that stops many stops some of them."""


@dataclass(frozen=True)
class HeldUp:
    """A run that waits because something fails."""

    run: Run
    why: str
    by_its_code: bool
    """Its workflow's code fails on its worker; else what an activity does, which is tried again."""


@dataclass(frozen=True)
class Progress:
    """How the open runs of a task queue get on."""

    looked_at: int
    held_up: Sequence[HeldUp]


async def progress(client: Client, task_queue: str) -> Progress:
    """Look at the newest open runs of a task queue. Raises ConnectError."""
    found = await runs_of(client, Which(going=True).query(()), enough=lambda _: True)
    newest = [run for run in found if run.task_queue == task_queue][:LOOKED_AT]
    looks = await at_once(lambda run: _held_up(client, run), newest)
    return Progress(len(newest), [each for each in looks if each])


async def _held_up(client: Client, run: Run) -> HeldUp | None:
    try:
        now = await look(client, run.id, run.run_id)
        # A worker that died leaves a second attempt too, but no failure.
        if now.task_attempt > 1 and (why := await _task_failure(client, now)):
            return HeldUp(now, code_fails(why), by_its_code=True)
    except NoSuchRun:  # forgotten just now
        return None
    failing = failing_activities(now) if now.open else ()
    return HeldUp(now, "; ".join(failing), by_its_code=False) if failing else None


async def _task_failure(client: Client, run: Run) -> str:
    async with rpc_errors(run.id):
        return (await history.recorded(client, run.key)).task_failure


async def progress_check(client: Client, task_queue: str) -> Check:
    """Say whether the open runs get on. Raises ConnectError."""
    seen = await progress(client, task_queue)
    figures = {"looked_at": seen.looked_at, "held_up": [each.run.id for each in seen.held_up]}
    broken = [each for each in seen.held_up if each.by_its_code]
    if broken:
        return _told("wrong", broken, "cannot go on", seen.looked_at, figures)
    if seen.held_up:
        return _told("note", seen.held_up, "held up", seen.looked_at, figures)
    found = f"{count(seen.looked_at, 'open run')}, none held up"
    return Check("progress", "ok", found, figures=figures)


def _told(
    state: State, runs: Sequence[HeldUp], how: str, of: int, figures: Mapping[str, Any]
) -> Check:
    first = runs[0]
    found = f"{len(runs)} of {count(of, 'open run')} {how}, such as {first.run.id!r}: {first.why}"
    return Check("progress", state, found, f"`{typed('status', first.run.id)}` says more", figures)
