"""Tell the app what began to wait for a person, beside the run: its hook never harms the run."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from onward import names
from onward.messages import Notified, NotifyInput, Waiting

from .running import run_activity, run_ref
from .standing import with_input
from .state import RunState

_LIMIT_S = 60.0
_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    maximum_interval=timedelta(seconds=20),
    maximum_attempts=5,
)


def notify(state: RunState) -> None:
    """Tell the app of whatever waits and was not told yet."""
    shown = {_name(each): each for each in state.waiting.shown.values()}
    told = set(state.notified)
    state.notified = tuple(name for name in state.notified if name in shown)
    new = [each for name, each in shown.items() if name not in told]
    if new and state.opening and state.opening.notifies:
        state.notified += tuple(_name(each) for each in new)
        task = asyncio.create_task(_notify(state, new))
        state.telling.add(task)
        task.add_done_callback(state.telling.discard)


def _name(waiting: Waiting) -> str:
    return f"{waiting.kind} {waiting.call} {waiting.since_ms}"


async def _notify(state: RunState, new: list[Waiting]) -> None:
    given = NotifyInput(
        run=run_ref(state),
        agent=state.request.agent,
        waiting=tuple(with_input(state, each) for each in new),
    )
    label = f"tell the app what waits: {', '.join(each.call for each in new)}"
    try:
        await run_activity(
            state, names.NOTIFY, given, Notified, label, limit_s=_LIMIT_S, retry=_RETRY
        )
    except ActivityError as error:
        workflow.logger.warning("the app was not told what waits: %s", error.cause)
