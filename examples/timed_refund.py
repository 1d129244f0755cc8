"""`timed`, advanced: a service that does not deduplicate, but can be asked what it has done.

After a crash Onward waits until nothing that was sent can still take effect, asks, and fires only
if the answer is no. This class, alone among the six, trusts clocks: it is right only if `settle_s`
is. Here the service makes it so, because it refuses a request after its `Valid-Until`. Where
nothing bounds how late a request can land, use `at_most_once`.
"""

import os
import time
from typing import Annotated, Any

import httpx2
from pydantic import Field

from onward import Agent, App, ToolContext, tool

VALID_S = 5.0
CLOCKS_APART_S = 1.0
"""How far this machine's clock and the service's may differ."""


def _service() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"])


async def check(_call: dict[str, Any], ctx: ToolContext) -> Any:
    """Return the refund's answer if it was made, else None."""
    async with _service() as http:
        reply = await http.get(f"/checks/{ctx.idempotency_key}")
    return reply.raise_for_status().json()["answer"]


@tool(effect="timed", check=check, settle_s=VALID_S + CLOCKS_APART_S, moves_money=True)
async def refund(order_id: str, amount_cents: Annotated[int, Field(gt=0)], ctx: ToolContext) -> Any:
    """Refund part or all of an order, in cents."""
    lapses = time.time() + VALID_S  # first of all: a pause after this line must count
    headers = {"Idempotency-Key": ctx.idempotency_key, "Valid-Until": f"{lapses:.3f}"}
    body = {"order": order_id, "amount_cents": amount_cents}
    async with _service() as http:
        reply = await http.post("/plain/refunds", json=body, headers=headers)
    return reply.raise_for_status().json()


app = App(
    Agent(
        "refunds",
        model="claude-sonnet-5-5",
        system="You settle refund requests.",
        tools=[refund],
    )
)
