"""A run that a person has paused: it has finished its step, and waits."""

from temporalio import workflow

from workflows.clock import people_waited
from workflows.continuing import may_continue
from workflows.running import now_ms
from workflows.showing import show
from workflows.state import RunState


async def waited_while_paused(state: RunState) -> bool:
    """Wait until nobody pauses the run any more, it is cancelled, or is to continue as new.

    False: nobody did.
    """
    if not _rests(state):
        return False
    show(state, "paused")
    state.resting = True
    people_waited(state, now_ms())
    try:
        await workflow.wait_condition(lambda: not _rests(state) or may_continue(state))
    finally:
        state.resting = False
        people_waited(state, now_ms())
    return True


def _rests(state: RunState) -> bool:
    return state.paused is not None and state.reply is None and state.cancel is None
