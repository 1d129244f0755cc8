"""A team's own workflow: two agents, one after the other, and what both cost together."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from temporalio import activity, workflow

from onward import run_agent


@dataclass(frozen=True)
class Settled:
    """How a return was settled."""

    outcome: str
    text: str
    cost_usd: Decimal


@activity.defn
async def book(order: str, text: str) -> str:
    """Write it into the team's own books, as any activity of theirs does."""
    return f"{order}: {text}"


@workflow.defn
class SettleReturn:
    """Settles the return of an order."""

    @workflow.run
    async def run(self, order: str) -> Settled:
        """Ask the clerk what came back, then have it refunded."""
        # Ids of one's own: each names a job, which is done once whatever is reset or started again.
        own = workflow.info().workflow_id
        found = await run_agent("clerk", f"What of order {order} came back?", id=f"{own}-look")
        if found.outcome != "completed":
            return Settled(found.outcome, found.text, found.spend.cost_usd)
        refunded = await run_agent(
            "refunds", f"Refund order {order}. The clerk says: {found.text}", id=f"{own}-refund"
        )
        text = await workflow.execute_activity(
            book, args=[order, refunded.text], start_to_close_timeout=timedelta(seconds=10)
        )
        return Settled(refunded.outcome, text, (found.spend + refunded.spend).cost_usd)
