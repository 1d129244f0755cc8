"""What the agent of a storm can do: look, and refund once a person has approved it."""

import os
from typing import Any

import httpx2

from onward import Agent, App, ToolContext, tool


@tool(effect="read")
async def look(at: int) -> str:
    """Look."""
    return f"saw {at}"


@tool(effect="keyed", ask="always")
async def refund(order: str, ctx: ToolContext) -> Any:
    """Refund an order."""
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        given = {"order": order, "amount_cents": 500}
        key = {"Idempotency-Key": ctx.idempotency_key}
        reply = await http.post("/refunds", json=given, headers=key)
    return reply.raise_for_status().json()


app = App(Agent("tester", model="claude-sonnet-5-5", tools=[look, refund]))
