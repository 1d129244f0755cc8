"""What people do to a run in tests: look at what waits, and say what they found out."""

from typing import Any

from agent_runs import Run
from temporalio.client import WorkflowUpdateFailedError

from onward.messages import RunStatus, Waiting
from onward.names import AGAIN
from onward.testing import wait_until


async def waiting(run: Run, count: int = 1) -> tuple[Waiting, ...]:
    """Wait until so many calls of the run wait for a person, as history knows, and return them."""
    seen: list[RunStatus] = []

    async def enough() -> bool:
        seen[:] = [await run.status()]
        return len(seen[0].waiting) >= count and not await _behind(run)

    await wait_until(enough, 30, what=f"{count} calls waiting for a person")
    return seen[0].waiting


async def _behind(run: Run) -> bool:
    # A worker without a cache tells what a workflow task will find that is still to come: in that
    # task a person's word would be heard first, and refused.
    told = (await run.handle.describe()).raw_description
    return told.HasField("pending_workflow_task")


async def say(run: Run, update: str, call: str, **said: Any) -> Any:
    """Send an update, again if the run asks for that; returns its answer as plain JSON."""
    while True:
        try:
            return await say_once(run, update, call, **said)
        except WorkflowUpdateFailedError as error:
            if AGAIN not in str(error.cause):
                raise


async def say_once(run: Run, update: str, call: str, **said: Any) -> Any:
    """Send an update; a run that is just going on in a new history may ask to say it again."""
    handle: Any = run.handle
    return await handle.execute_update(update, {"call": call, "by": "operator@desk", **said})


async def refused(run: Run, update: str, call: str, **said: Any) -> str:
    """Send an update that must be refused, and return why it was."""
    try:
        answer = await say(run, update, call, **said)
    except WorkflowUpdateFailedError as error:
        return str(error.cause)
    raise AssertionError(f"{update} of {call} was taken: {answer!r}")


async def say_in_time(run: Run, call: str, outcome: str) -> Any:
    """Settle a doubt as soon as the quarantine lets one; returns the update's answer."""
    answers: list[Any] = []

    async def taken() -> bool:
        try:
            answers.append(await say(run, "resolve", call, outcome=outcome))
        except WorkflowUpdateFailedError as error:
            assert "may still land" in str(error.cause)  # noqa: PT017
        return bool(answers)

    await wait_until(taken, 30, what="the end of the quarantine")
    return answers[0]


async def send(run: Run, text: str, *, id: str = "", update: str = "") -> dict[str, Any]:  # noqa: A002
    """Tell Claude something; returns the update's answer as plain JSON."""
    handle: Any = run.handle
    said, named = {"text": text, "id": id, "by": "operator@desk"}, {"id": update} if update else {}
    sent: dict[str, Any] = await handle.execute_update("send", said, **named)
    return sent
