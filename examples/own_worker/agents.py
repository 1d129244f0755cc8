"""Two agents: one looks an order up, one refunds it."""

from typing import Any

from examples.keyed_refund import refund
from onward import Agent, App, tool

ORDERS = {"A-17": {"cents": 2_500, "state": "returned"}, "A-18": {"cents": 900, "state": "kept"}}


@tool(effect="read")
async def look_up(order_id: str) -> dict[str, Any]:
    """Look an order up: what it cost, in cents, and whether it came back."""
    return ORDERS.get(order_id, {"state": "unknown"})


MODEL = "claude-sonnet-5-5"
app = App(
    Agent("clerk", model=MODEL, system="You answer questions about orders.", tools=[look_up]),
    Agent("refunds", model=MODEL, system="You settle refund requests.", tools=[refund]),
)
