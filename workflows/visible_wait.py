"""A wait that the Temporal UI shows."""

from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow

from .labels import bounded
from .state import RunState

_LONG = timedelta(days=365)


async def visible_wait(
    state: RunState, over: Callable[[], bool], label: str, left_s: float | None = None
) -> None:
    """Wait until `over()` under a timer named `label`; raises TimeoutError after `left_s`.

    Only a timer makes a wait a bar of the UI's timeline: without one, days that a run waits for a
    person are a gap in it.
    """
    if over():
        return
    if left_s is None and not state.keeps_rules_of(5):
        await workflow.wait_condition(over)
        return
    ends = _LONG if left_s is None else timedelta(seconds=left_s)
    while True:
        try:
            await workflow.wait_condition(over, timeout=ends, timeout_summary=bounded(label))
        except TimeoutError:
            if left_s is not None:
                raise
        else:
            return
