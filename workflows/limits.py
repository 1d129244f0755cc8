"""A run that meets a limit and waits for a person who raises it."""

from onward.messages import LimitChange, Waiting

from .budget import Ending
from .continuing import may_continue
from .running import now_ms
from .state import RunState
from .visible_wait import visible_wait

LIMIT = "limit"
"""What stands in the place of a call's id among what waits for people."""


async def wait_at(state: RunState, met: Ending) -> None:
    """Show the limit that was met, and wait until a person has changed it.

    Returns too where the run is to continue as new; whoever is still over a limit meets it again.
    """
    outcome, why = met
    waiting = Waiting(
        call=LIMIT, kind=LIMIT, tool=outcome, summary=why, why=why, view="", since_ms=now_ms()
    )
    state.doing = "waiting at a limit"
    state.waiting.ask(waiting)

    def over() -> bool:
        return LIMIT not in state.waiting.shown or bool(state.cancel) or may_continue(state)

    await visible_wait(state, over, f"waits for a person at a limit: {why}")


def not_changeable(state: RunState, change: LimitChange) -> str | None:
    """Say why limits cannot be changed so; None if they can."""
    if state.outcome or state.cancel:
        return "the run is ending or has ended: no limit of it matters any more"
    if change.max_cost_usd is not None and state.opening and not state.opening.price_known:
        return "the price of the run's model is not known: limit its tokens instead"
    return None
