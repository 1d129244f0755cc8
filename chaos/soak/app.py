"""The agent of the soak: chaos' own tools, one that asks a person, one that tells a great deal."""

import hashlib
from typing import Any

from chaos.app import book_refund, look_up, pay_out, refund, sealed_refund
from onward import Agent, App, ToolContext, tool

STATEMENT_BYTES = 160_000
"""Beyond what Claude is shown at once, and what Temporal's history holds itself."""


@tool(effect="keyed", ask="always")
async def approved_refund(order: str, ctx: ToolContext, pace: str = "") -> Any:
    """Refund an order, once a person has approved it."""
    return await refund(order, ctx, pace)


@tool(effect="keyed", key_from=lambda call: str(call["order"]), key_scope="everywhere")
async def refund_once(order: str, ctx: ToolContext, pace: str = "") -> Any:
    """Refund an order that no other run may refund either."""
    return await refund(order, ctx, pace)


@tool(effect="read")
async def statement(order: str, pace: str = "") -> str:
    """Tell all that there is to tell of an order."""
    del pace
    # Another text for each order, or all would be one file in the payload folder.
    line = hashlib.sha256(order.encode()).hexdigest()
    return line * (STATEMENT_BYTES // len(line))


app = App(
    Agent(
        "soak",
        model="claude-sonnet-5-5",
        tools=[
            *(look_up, refund, book_refund, pay_out, sealed_refund),
            *(approved_refund, refund_once, statement),
        ],
    )
)
