"""What is done when an activity finds the ledger incomplete: rebuild it from history, try again."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

from onward import messages as m
from onward import names

from .running import LONG_S, run_activity, run_ref
from .state import RunState
from .stops import kind_of

T = TypeVar("T", bound=m.Wire)

_AT_ONCE = 5
_LONGEST_PAUSE_S = 3600


def pause_s(times: int) -> int:
    """Seconds to wait before so many refills of one activity.

    A Redis that loses everything at once is mended by people, and until then the run stays open. A
    pause is about as long as all before it were; so the history, which grows by some twenty events
    each time and may have 51,200, lasts for months.
    """
    return 0 if times <= _AT_ONCE else min(2 ** (times - _AT_ONCE), _LONGEST_PAUSE_S)


async def refilling(state: RunState, run: Callable[[], Awaitable[T]]) -> T:
    """Run an activity; where it finds the ledger incomplete, refill and run it again.

    Raises `ActivityError` when it stops for another reason.
    """
    for refills in count(1):
        try:
            return await run()
        except ActivityError as error:
            if kind_of(error) != "ledger_gap":
                raise
            await _refill(state, refills)
    raise AssertionError("unreachable: counting has no end")


async def _refill(state: RunState, times: int) -> None:
    """Rebuild the run's records in Redis from its own history, and take a new witness."""
    if state.witness is None:
        raise ValueError("found no witness; expected `begin` to have run before")
    if pause := pause_s(times):
        await workflow.sleep(pause, summary="the ledger loses what it is given")
    given = m.RefillInput(run=run_ref(state), witness=state.witness, head=state.head)
    summary = "rebuild the ledger from history"
    refilled = await run_activity(state, names.REFILL, given, m.Refilled, summary, limit_s=LONG_S)
    state.witness = refilled.witness
    # Where it ended as a cancel arrived, that is spent; and what it was for must not start.
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError
