"""What the runbooks' agent can do: pay at a service that forgets keys, and at one without any."""

import asyncio
import os
import sys
from typing import Any

import httpx2

from onward import Agent, App, ToolContext, tool

AGENT = "RUNBOOK_AGENT"
"""Environment variable: the agent's name, which is another one in each test."""
HOLD = "RUNBOOK_HOLD"
"""Environment variable of a worker that is to die before it sends an order with this beginning."""
HOLDS = "holds order"
"""What such a worker prints when it has come to that."""


async def _post(order: str, ctx: ToolContext, trouble: str) -> Any:
    body = {"order": order, "amount_cents": 500}
    headers = {"Idempotency-Key": ctx.idempotency_key}
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"], timeout=60) as http:
        reply = await http.post(f"/plain/refunds?{trouble}", json=body, headers=headers)
    return reply.raise_for_status().json()


@tool(effect="keyed", moves_money=True)
async def refund(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Refund an order, at a service that was said to honour keys, and does not."""
    return await _post(order, ctx, trouble)


@tool(moves_money=True, timeout_s=2)
async def pay_out(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Pay out, at a service without keys."""
    if order.startswith(os.environ.get(HOLD, "\n")):
        print(HOLDS, order, file=sys.stderr, flush=True)  # noqa: T201  (for the test)
        await asyncio.sleep(60)
    return await _post(order, ctx, trouble)


_name = os.environ.get(AGENT, "support")
app = App(Agent(_name, model="claude-sonnet-5-5", tools=[refund, pay_out]))
