"""A run that a person has paused: it has finished its step, and waits."""

from .clock import people_waited
from .continuing import may_continue
from .running import now_ms
from .showing import show
from .state import RunState
from .visible_wait import visible_wait


async def waited_while_paused(state: RunState) -> bool:
    """Wait until nobody pauses the run any more, it is cancelled, or is to continue as new.

    False: nobody did.
    """
    paused = state.paused
    if paused is None or not _rests(state):
        return False
    show(state, "paused")
    state.resting = True
    people_waited(state, now_ms())
    try:
        label = f"paused by {paused.by or 'somebody'}: waits for resume"
        await visible_wait(state, lambda: not _rests(state) or may_continue(state), label)
    finally:
        state.resting = False
        people_waited(state, now_ms())
    return True


def _rests(state: RunState) -> bool:
    return state.paused is not None and state.reply is None and state.cancel is None
