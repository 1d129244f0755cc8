"""`keyed`: a service that carries out one request for each idempotency key. The usual case.

Most payment services are like this. Every attempt of a call sends the same key, so a crash at any
moment, or the loss of all of Redis, costs a repeated request and never a repeated refund.
"""

import os
from typing import Annotated, Any

import httpx2
from pydantic import Field

from onward import Agent, App, ToolContext, tool


def in_words(call: dict[str, Any]) -> str:
    """Say what a refund would do, to people who look at a run or approve it."""
    return f"order {call['order_id']} · ${call['amount_cents'] / 100:,.2f}"


@tool(effect="keyed", moves_money=True, summary=in_words)
async def refund(order_id: str, amount_cents: Annotated[int, Field(gt=0)], ctx: ToolContext) -> Any:
    """Refund part or all of an order, in cents."""
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        # One request, and the key with it: a tool that forgets it has the promise of no class.
        reply = await http.post(
            "/refunds",
            json={"order": order_id, "amount_cents": amount_cents},
            headers={"Idempotency-Key": ctx.idempotency_key},
        )
    # A 4xx certainly did nothing, and Claude is told. After a 5xx or a timeout Onward asks again.
    return reply.raise_for_status().json()


app = App(
    Agent(
        "refunds",
        model="claude-sonnet-5-5",
        system="You settle refund requests.",
        tools=[refund],
    )
)
