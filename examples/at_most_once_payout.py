"""`at_most_once`: a service that knows no key and cannot be asked. What a tool gets by default.

Nothing can make this exactly once. Onward sends at most one request. If a crash leaves open whether
it arrived, the call is in doubt: with `moves_money` a person looks at the bank's statement and says
(`onward resolve`), without it Claude is told that the outcome is unknown.
"""

import os
from typing import Annotated, Any

import httpx2
from pydantic import Field

from onward import Agent, App, tool


@tool(moves_money=True)
async def pay_out(order_id: str, amount_cents: Annotated[int, Field(gt=0)]) -> Any:
    """Pay an order's amount out to the customer's bank account, in cents."""
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        # No retry here either, nor in the client: this is the one request.
        reply = await http.post(
            "/plain/refunds", json={"order": order_id, "amount_cents": amount_cents}
        )
    return reply.raise_for_status().json()


app = App(
    Agent(
        "payouts",
        model="claude-sonnet-5-5",
        system="You pay customers out.",
        tools=[pay_out],
    )
)
