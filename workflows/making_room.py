"""Claude's next reply, with room made for it where the context window is too full."""

from collections.abc import Callable, Iterator

from temporalio.exceptions import ActivityError

from onward import messages as m

from . import scheduling
from .budget import may_compact, overflowed, when_to_compact
from .state import RunState
from .stops import kind_of

_TOO_FULL = frozenset({"context_full", "context_exceeded"})
_NO_SUMMARY = frozenset({"no_summary", "context_exceeded", "claude"})
"""Ways in which Claude was asked for a summary in vain: the step may still do without."""


async def ask_claude(state: RunState, heed_cancel: Callable[[], None]) -> m.ClaudeReply:
    """Ask Claude for the next reply; where its window is too full, for a summary, then once more.

    Raises `ActivityError` when the step cannot be done, and what `heed_cancel` raises.
    """
    ids, summable = _step_ids(state), may_compact(state)
    try:
        reply = await scheduling.ask_claude(state, ids, when_to_compact(state))
    except ActivityError as error:
        kind = kind_of(error)
        if not summable or kind not in _TOO_FULL:
            raise
        if not await _sum_up(state, heed_cancel) and kind == "context_exceeded":
            raise
    else:
        if not summable or not overflowed(reply) or not await _sum_up(state, heed_cancel):
            return reply
    heed_cancel()
    # What was asked before was asked of a longer conversation: it has a position of its own.
    return await scheduling.ask_claude(state, ids, "never")


async def _sum_up(state: RunState, heed_cancel: Callable[[], None]) -> bool:
    """Ask Claude for a summary in place of the conversation so far; False: it made none."""
    heed_cancel()
    try:
        reply = await scheduling.ask_claude(state, _summary_ids(state), "now")
    except ActivityError as error:
        if kind_of(error) not in _NO_SUMMARY:
            raise
        state.vain_summary = state.steps
        return False
    state.summed_up(reply)
    return True


def _summary_ids(state: RunState) -> Iterator[str]:
    # Never one again: what was lost under it is counted, and its record knows of it.
    while True:
        state.summaries += 1
        yield f"{state.steps + 1}.c{state.summaries}"


def _step_ids(state: RunState) -> Iterator[str]:
    step = str(state.steps + 1)
    while True:
        yield f"{step}.r{state.redos}" if state.redos else step
        state.redos += 1
