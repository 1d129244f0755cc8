"""`sealed`, advanced: a service that does not deduplicate, and can be told to refuse late requests.

Each attempt of a call has a fence, a number above that of every attempt before. Before a later
attempt fires, it seals: the service says whether the refund was made, and from then on refuses
every lower fence. What an earlier attempt sent was seen, or will be refused; no clock is needed.
"""

import os
from typing import Annotated, Any

import httpx2
from pydantic import Field

from onward import Agent, App, ToolContext, tool


async def _post(path: str, ctx: ToolContext, body: dict[str, Any] | None = None) -> Any:
    headers = {"Idempotency-Key": ctx.idempotency_key, "Fence": str(ctx.fence)}
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        reply = await http.post(path, json=body, headers=headers)
    # A stale fence is a 409, and raised like the rest: a later attempt is at work by then.
    return reply.raise_for_status().json()


async def seal(_call: dict[str, Any], ctx: ToolContext) -> Any:
    """Refuse lower fences from now on; the refund's answer if it was made, else None.

    Both must be one step for the service: a request that lands between them would be missed.
    """
    return (await _post("/seals", ctx))["answer"]


@tool(effect="sealed", seal=seal, moves_money=True)
async def refund(order_id: str, amount_cents: Annotated[int, Field(gt=0)], ctx: ToolContext) -> Any:
    """Refund part or all of an order, in cents."""
    return await _post("/sealed/refunds", ctx, {"order": order_id, "amount_cents": amount_cents})


app = App(
    Agent(
        "refunds",
        model="claude-sonnet-5-5",
        system="You settle refund requests.",
        tools=[refund],
    )
)
