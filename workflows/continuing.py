"""When a run continues as new, and how: history must stay short enough to be replayed quickly."""

from temporalio import workflow

from onward import messages as m

from . import carrying, scheduling
from .clock import asks_now, people_waited
from .running import now_ms, run_ref
from .state import RunState

_MOST_BYTES = 4_000_000
"""Of history, and of conversation that a replay reads from it: large payloads lie elsewhere."""


class HistoryIsLong(Exception):
    """Raised out of a step that waits for people: the run continues as new in its middle."""


def is_long(state: RunState) -> bool:
    """Say whether the workflow run's history has grown so long that the run must continue as new.

    A replay takes half a millisecond an event, and a new worker's first answer waits for it.
    """
    most_events = state.opening.history_events if state.opening else 0
    # A prompt that Claude was not asked yet stands in this workflow run's start event alone.
    if not most_events or any(isinstance(item, m.Prompt) for item in state.additions):
        return False
    info = workflow.info()
    return (
        info.get_current_history_length() >= most_events
        or max(info.get_current_history_size(), state.read_bytes) >= _MOST_BYTES
        or info.is_continue_as_new_suggested()
    )


def may_continue(state: RunState) -> bool:
    """Say whether a run that waits for people is to continue as new right now."""
    return is_long(state) and not state.working and workflow.all_handlers_finished()


async def carried(state: RunState) -> m.Carried:
    """Make a segment of all that this workflow run's history tells; return what goes with it."""
    state.carrying = True
    # Nothing is under way but what people said, and what the app is told. Nothing of that waits any
    # more, so a hook that hangs must not hold the run up.
    for telling in state.telling:
        telling.cancel()
    await workflow.wait_condition(lambda: workflow.all_handlers_finished() and not state.working)
    segment = await scheduling.carry(state)
    people_waited(state, now_ms())
    asks_now(state, now_ms())
    return carrying.carry(state, segment.reference, reset_lineage=run_ref(state).has_lineage)


def continue_as_new(state: RunState, carry: m.Carried) -> None:
    """End this workflow run; the run goes on in another. Does not return."""
    request = state.request.model_copy(update={"prompt": "", "carried": carry})
    # Temporal hands on the memo of the start only.
    workflow.continue_as_new(request, memo=workflow.memo())
