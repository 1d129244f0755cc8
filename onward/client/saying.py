"""Say something to a run so that it is heard once, whatever happens to it meanwhile.

A run that continues as new, and a server that has too much to do, ask to hear it again: that is
done here, for a while, and never longer than `WITHIN_S`.
"""

import asyncio
import getpass
import os
import socket
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError
from temporalio.client import (
    Client,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from onward import history, runs
from onward.errors import ConnectError, NoSuchRun, UsageError
from onward.history import Ended
from onward.invoked import typed
from onward.messages import Wire
from onward.runs import Report, Run
from onward.starting import pollers

WITHIN_S = 20.0
"""Seconds after which a run that has not answered is given up, all tries together."""
_SAYS_HOW_IT_IS_WITHIN_S = 5.0
_LONG_POLL = timedelta(seconds=70)
"""Within it a living worker asks for tasks again, whether there are some or not."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_SAY_AGAIN = "Say it again"
_CLOSED_MEANWHILE = "AcceptedUpdateCompletedWorkflow"
# Of what is not text, as a shell hands it on: half of a character, another encoding.
_NO_TEXT = "what you say is no valid text. Give it as UTF-8"
_PASSES = {
    RPCStatusCode.ABORTED,
    RPCStatusCode.NOT_FOUND,  # that workflow run has closed: the run may go on in another one
    RPCStatusCode.RESOURCE_EXHAUSTED,  # ten updates are under way, or the server is busy
    RPCStatusCode.UNAVAILABLE,
}

Answer = TypeVar("Answer", bound=Wire)


class _NotNow(Exception):
    """The run did not take it, and may when it hears it again."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused
        """The run has answered: nothing was changed."""


async def say(client: Client, run: Run, update: str, said: Wire, answer: type[Answer]) -> Answer:
    """Send the run an update, and return its answer.

    Raises:
        UsageError: the run refuses it, or has ended.
        ConnectError: the run does not answer within `WITHIN_S`.

    """
    why, deadline = "", asyncio.get_running_loop().time() + WITHIN_S
    update_id, pause_s = uuid.uuid4().hex, _FIRST_PAUSE_S
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                try:
                    return await _say_once(client, run, update, said, answer, update_id=update_id)
                except _NotNow as not_now:
                    why = str(not_now)
                    # Under its id the same workflow run would give the same answer for ever.
                    update_id = uuid.uuid4().hex if not_now.refused else update_id
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                with suppress(ConnectError):
                    run = await still_open(client, run)
    except TimeoutError as error:
        raise ConnectError(_unanswered(run, why)) from error


async def signal(client: Client, run: Run, name: str, said: Wire) -> bool:
    """Signal the run, whether or not a worker is there; False where it has ended.

    Raises UsageError, ConnectError.
    """
    if not run.open:
        return False
    try:
        async with runs.rpc_errors(run.id):
            handle = client.get_workflow_handle(run.id)
            await handle.signal(name, said, rpc_timeout=history.RPC_TIMEOUT)
    except PydanticSerializationError as error:
        raise UsageError(_NO_TEXT) from error
    except NoSuchRun:  # so Temporal calls a run that has closed since we looked
        return False
    return True


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


async def hearing(client: Client, run_id: str) -> Run:
    """Describe the run, if it is open and a worker is there to hear what is said.

    A worker is not asked unless something is wrong: one that is busy with what others say would not
    answer in time.

    Raises NoSuchRun, UsageError where it has ended, ConnectError where no worker would hear.
    """
    run = await runs.describe(client, run_id)
    refuse_ended(run, await runs.ended(client, run))
    if not await pollers(client, run.task_queue, since=datetime.now(UTC) - _LONG_POLL):
        raise _nobody_hears(run, f"no worker of task queue {run.task_queue!r} answers")
    if run.task_attempt > 1 and not (seen := await runs.report(client, run)).live:
        raise _nobody_hears(run, seen.trouble)
    return run


async def answering(client: Client, run_id: str) -> Report:
    """Report as the run's worker does, which may be busy for a while. Raises as `hearing`."""
    deadline = asyncio.get_running_loop().time() + _SAYS_HOW_IT_IS_WITHIN_S
    while True:
        seen = await runs.report(client, await hearing(client, run_id))
        refuse_ended(seen.run, seen.ended)
        if seen.live:
            return seen
        if asyncio.get_running_loop().time() > deadline:
            raise _nobody_hears(seen.run, seen.trouble)
        await asyncio.sleep(_FIRST_PAUSE_S)


def _nobody_hears(run: Run, why: str) -> ConnectError:
    return ConnectError(
        f"{why}, so nothing can be said to the run {run.id!r}. Start `python worker.py`, then say "
        "it again"
    )


def claimed_name() -> str:
    """Name of whoever runs this process, as their machine has it: a claim, no proof."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # as in a container, whose user has no name
        name = f"uid-{os.getuid()}"
    return f"{name}@{socket.gethostname()}"


async def _say_once(
    client: Client, run: Run, update: str, said: Wire, answer: type[Answer], *, update_id: str
) -> Answer:
    handle: Any = client.get_workflow_handle(run.id, run_id=run.run_id)
    try:
        done = await handle.execute_update(update, said, id=update_id, result_type=answer)
    except PydanticSerializationError as error:
        raise UsageError(_NO_TEXT) from error
    except WorkflowUpdateFailedError as error:
        raise _refusal(error) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        # Temporal's client turns a cancel into this, so Ctrl-C and our own deadline would be lost.
        if (task := asyncio.current_task()) and task.cancelling():
            raise asyncio.CancelledError from error
        raise _NotNow("Temporal does not answer") from error
    except RPCError as error:
        if error.status in _PASSES:
            raise _NotNow(error.message) from error
        async with runs.rpc_errors(run.id):
            raise
    return answer.model_validate(done)


def _refusal(error: WorkflowUpdateFailedError) -> Exception:
    # As text, Temporal's errors begin with their type.
    why = getattr(error.cause, "message", str(error.cause))
    if isinstance(error.cause, ApplicationError) and error.cause.type == _CLOSED_MEANWHILE:
        return _NotNow(why)
    if _SAY_AGAIN in why:
        return _NotNow(why, refused=True)
    return UsageError(f"{why}. Nothing was changed")


def _unanswered(run: Run, why: str) -> str:
    because = f" ({why})" if why else ""
    return (
        f"the run {run.id!r} has not answered within {WITHIN_S:.0f} s{because}. It may still take "
        f"what you said: look at `{typed('status', run.id)}` before you say it again"
    )
