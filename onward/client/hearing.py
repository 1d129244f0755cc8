"""Whether a run, and a worker of it, are there to hear what is said."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from onward import reports, runs
from onward.errors import ConnectError, UsageError
from onward.history import Ended
from onward.invoked import typed, worker
from onward.reports import Report
from onward.runs import Run
from onward.starting import pollers

_ANSWERS_WITHIN_S, _AGAIN_S = 5.0, 0.1
_LONG_POLL = timedelta(seconds=70)
"""Within it a living worker asks for tasks again, whether there are some or not."""


async def hearing(client: Client, run_id: str) -> Run:
    """Describe the run, if it is open and a worker is there to hear what is said.

    Raises NoSuchRun, UsageError where it has ended, ConnectError where no worker would hear.
    """
    run = await runs.describe(client, run_id)
    refuse_ended(run, await runs.ended(client, run))
    # Who is busy with what others say would not answer in time: asked only if something is wrong.
    if not await _looks_well(client, run):
        seen = await reports.report(client, run)
        if not seen.live:
            raise _nobody_hears(seen)
    return run


async def answering(client: Client, run_id: str) -> Report:
    """Report as the run's worker does, which may be busy for a while. Raises as `hearing`."""
    deadline = asyncio.get_running_loop().time() + _ANSWERS_WITHIN_S
    while True:
        seen = await reports.report(client, await hearing(client, run_id))
        refuse_ended(seen.run, seen.ended)
        if seen.live:
            return seen
        if asyncio.get_running_loop().time() > deadline:
            raise _nobody_hears(seen)
        await asyncio.sleep(_AGAIN_S)


async def still_open(client: Client, run: Run) -> Run:
    """Describe the run as it is now. Raises UsageError, which says how, where it has ended."""
    now = await runs.describe(client, run.id)
    if now.first_run_id != run.first_run_id:  # the id was started again: ours has ended
        now = await runs.look(client, run.id, run.run_id)
    refuse_ended(now, await runs.ended(client, now))
    return now


def refuse_ended(run: Run, how: Ended | None) -> None:
    """Raise UsageError, which says how, where the run has ended."""
    if how is not None:
        detail = f", {how.result.detail}" if how.result.detail else ""
        fork = typed("fork", run.id, "--message", "…")
        raise UsageError(
            f"the run {run.id!r} has ended ({how.result.outcome}{detail}): it hears nothing any "
            f"more. `{fork}` starts a run that goes on from its end"
        )


async def _looks_well(client: Client, run: Run) -> bool:
    """Say whether a worker polls for the run's tasks, and its code does not fail on it.

    False if nobody knows: of a large task queue the server tells some of the pollers only.
    """
    with suppress(ConnectError):  # not every account may look
        polled = await pollers(client, run.task_queue, since=datetime.now(UTC) - _LONG_POLL)
        return bool(polled) and run.task_attempt <= 1
    return False


def _nobody_hears(seen: Report) -> ConnectError:
    return ConnectError(
        f"{seen.trouble or 'no worker answers'}, so nothing can be said to the run "
        f"{seen.run.id!r}. Start `{worker()}`, then say it again"
    )
