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
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic_core import PydanticSerializationError
from temporalio.client import (
    Client,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from onward import history, runs
from onward.client.hearing import still_open
from onward.errors import ConnectError, NoSuchRun, UsageError
from onward.invoked import typed
from onward.messages import Wire
from onward.names import AGAIN
from onward.runs import Run

WITHIN_S = 20.0
"""Seconds after which a run that has not answered is given up, all tries together."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_CLOSED_MEANWHILE = "AcceptedUpdateCompletedWorkflow"
NO_TEXT = "what you say is no valid text. Give it as UTF-8"
"""Of what a shell hands on as text: half of a character, another encoding."""
_NOT_TAKEN = {
    RPCStatusCode.ABORTED,
    RPCStatusCode.NOT_FOUND,  # that workflow run has closed: the run may go on in another one
    RPCStatusCode.RESOURCE_EXHAUSTED,  # ten updates are under way, or the server is busy
}

Answer = TypeVar("Answer", bound=Wire)


async def say(client: Client, run: Run, update: str, said: Wire, answer: type[Answer]) -> Answer:
    """Send the run an update, and return its answer.

    Raises:
        UsageError: the run refuses it, or has ended.
        ConnectError: the run does not answer within `WITHIN_S`.

    """
    saying = _Saying(client, update, said, answer)
    try:
        async with asyncio.timeout(WITHIN_S):
            return await saying.until_taken(run)
    except TimeoutError as error:
        because = f" ({saying.why})" if saying.why else ""
        raise ConnectError(
            f"the run {run.id!r} has not answered within {WITHIN_S:.0f} s{because}. It may still "
            f"take what you said: look at `{typed('status', run.id)}` before you say it again"
        ) from error


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
        raise UsageError(NO_TEXT) from error
    except NoSuchRun:  # so Temporal calls a run that has closed since we looked
        return False
    return True


def claimed_name() -> str:
    """Name of whoever runs this process, as their machine has it: a claim, no proof."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # as in a container, whose user has no name
        name = f"uid-{os.getuid()}"
    return f"{name}@{socket.gethostname()}"


class _NotNow(Exception):
    """The run did not take it, and may when it hears it again."""


class _SayAgain(_NotNow):
    """The run itself asks for that."""


class _Lost(_NotNow):
    """Whether the run took it, nobody knows."""


@dataclass
class _Saying(Generic[Answer]):
    """One update, until the run has taken or refused it."""

    client: Client
    update: str
    said: Wire
    answer: type[Answer]
    update_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    why: str = ""
    """Why it was not taken yet."""
    lost: bool = False
    """It may have been taken all the same."""

    async def until_taken(self, run: Run) -> Answer:
        """Say it to the run, and to the workflow runs in which that goes on."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._once(run)
            except _NotNow as not_now:
                self._note(not_now)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            with suppress(ConnectError):
                run = await self._still_open(run)

    def _note(self, not_now: _NotNow) -> None:
        self.why, self.lost = str(not_now), self.lost or isinstance(not_now, _Lost)
        if isinstance(not_now, _SayAgain):
            # Under its id, the same workflow run would give the same answer for ever.
            self.update_id = uuid.uuid4().hex

    async def _still_open(self, run: Run) -> Run:
        try:
            return await still_open(self.client, run)
        except UsageError as ended:
            if self.lost:
                told = typed("watch", run.id, "--all")
                raise UsageError(
                    f"{ended}. It may have heard you before: `{told}` tells"
                ) from ended
            raise

    async def _once(self, run: Run) -> Answer:
        handle: Any = self.client.get_workflow_handle(run.id, run_id=run.run_id)
        try:
            answer = await handle.execute_update(
                self.update, self.said, id=self.update_id, result_type=self.answer
            )
        except PydanticSerializationError as error:
            raise UsageError(NO_TEXT) from error
        except WorkflowUpdateFailedError as error:
            raise _refusal(error) from error
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            # Temporal's client turns a cancel into this: Ctrl-C and `WITHIN_S` would be lost.
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from error
            raise _Lost("Temporal does not answer") from error
        except RPCError as error:
            if error.status in _NOT_TAKEN:
                raise _NotNow(error.message) from error
            if error.status == RPCStatusCode.UNAVAILABLE:
                raise _Lost(error.message) from error
            async with runs.rpc_errors(run.id):
                raise
        return self.answer.model_validate(answer)


def _refusal(error: WorkflowUpdateFailedError) -> Exception:
    # As text, Temporal's errors begin with their type.
    why = getattr(error.cause, "message", str(error.cause)).rstrip(".")
    if isinstance(error.cause, ApplicationError) and error.cause.type == _CLOSED_MEANWHILE:
        return _Lost(why)
    return _SayAgain(why) if AGAIN in why else UsageError(f"{why}. Nothing was changed")
