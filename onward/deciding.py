"""What a person says of a call that waits: approve it, deny it, settle its doubt."""

import getpass
import shlex
import socket
import time
from datetime import timedelta
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError

from onward import runs
from onward.console import Output
from onward.errors import ConnectError, UsageError
from onward.messages import Approval, Denial, Resolution, Resolve, Settlement, Wire
from onward.messages import Waiting as WaitingCall
from onward.runs import Report, Run
from onward.session import Session, find_run, open_session

_WITHIN = timedelta(seconds=20)
Answer = TypeVar("Answer", bound=Wire)


async def approve(run_id: str, call: str, out: Output, *, view: str = "") -> int:
    """Let a call run."""
    session, run, waiting = await _waiting(run_id, call, out)
    said = Approval(call=call, view=view or waiting.view, by=claimed_name())
    approved = await say(session, run, "approve", said, WaitingCall)
    _tell(out, run, said, f"{call} {approved.tool} ({approved.summary}) may run")
    return 0


async def deny(run_id: str, call: str, why: str, out: Output, *, view: str = "") -> int:
    """Refuse a call."""
    session, run, waiting = await _waiting(run_id, call, out)
    said = Denial(call=call, view=view or waiting.view, by=claimed_name(), why=why)
    denied = await say(session, run, "deny", said, WaitingCall)
    _tell(out, run, said, f"{call} {denied.tool} ({denied.summary}) will not run; Claude is told")
    return 0


async def resolve(
    run_id: str, call: str, outcome: Settlement, note: str, out: Output, *, view: str = ""
) -> int:
    """Settle a doubt."""
    session, run, waiting = await _waiting(run_id, call, out)
    seen = view or waiting.view
    by, now_ms = claimed_name(), int(time.time() * 1000)
    said = Resolve(call=call, view=seen, by=by, outcome=outcome, note=note, said_ms=now_ms)
    settled = await say(session, run, "resolve", said, Resolution)
    _tell(out, run, said, _settled(call, outcome, settled), verdict=settled.verdict)
    return 0


def claimed_name() -> str:
    """Name of whoever types, as their machine has it: a claim, no proof."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _settled(call: str, outcome: Settlement, settled: Resolution) -> str:
    if settled.verdict == "open":
        return f"{call} is tried again"
    if settled.verdict == outcome:
        return f"{call} is settled: {outcome}"
    return f"{call} had turned out to be {settled.verdict} meanwhile; that stands"


async def _waiting(run_id: str, call: str, out: Output) -> tuple[Session, Run, WaitingCall]:
    """Find the call among those that wait. Raises UsageError that says which do."""
    session = await open_session(out)
    run = await find_run(session, run_id)
    seen = await runs.report(session.client, run)
    if seen.ended is not None:
        raise UsageError(
            f"the run {run.id!r} has ended ({seen.ended.result.outcome}); no call of it waits. "
            f"`audit {shlex.quote(run.id)}` shows who decided"
        )
    refuse_deaf(seen)
    waiting = {each.call: each for each in seen.status.waiting}
    if call not in waiting:
        known = ", ".join(f"{each.call} ({each.kind})" for each in waiting.values())
        raise UsageError(
            f"call {call!r} of the run {run.id!r} does not wait for a person; waiting: "
            f"{known or 'none'}. `audit {shlex.quote(run.id)}` shows who decided"
        )
    return session, run, waiting[call]


def refuse_deaf(seen: Report) -> None:
    """Raise ConnectError where no worker of the run would hear what is said."""
    if not seen.live:
        raise ConnectError(
            f"{seen.trouble or 'no worker answers'}, so nothing can be said to the run "
            f"{seen.run.id!r}. Start `python worker.py`, then say it again"
        )


async def say(session: Session, run: Run, update: str, said: Wire, answer: type[Answer]) -> Answer:
    """Send the run an update, and return its answer. Raises UsageError, ConnectError."""
    handle: Any = session.client.get_workflow_handle(run.id, run_id=run.run_id)
    try:
        async with runs.rpc_errors(run.id):
            done: Any = await handle.execute_update(
                update, said, result_type=answer, rpc_timeout=_WITHIN
            )
    except PydanticSerializationError as error:
        # Of what is not text, as a shell hands it on: half of a character, another encoding.
        raise UsageError("what you say is no valid text. Give it as UTF-8") from error
    except WorkflowUpdateFailedError as error:
        # As text, Temporal's errors begin with their type.
        why = getattr(error.cause, "message", error.cause)
        raise UsageError(f"{why}. Nothing was changed") from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise ConnectError(
            f"the run {run.id!r} has not answered within {_WITHIN.seconds} s. It may still take "
            "what you said: look at `status` before you say it again"
        ) from error
    return answer.model_validate(done)


def _tell(out: Output, run: Run, said: Wire, text: str, **more: str) -> None:
    if out.as_json:
        out.json({"run": run.id, "run_id": run.run_id, **said.model_dump(mode="json"), **more})
    else:
        out.say(text)
