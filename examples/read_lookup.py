"""`read`: a tool that changes nothing.

It may run again after a crash, and reads may run beside each other. Whatever the attempts saw, one
result is recorded, and only that one is ever shown to Claude.
"""

import os
from typing import Any
from urllib.parse import quote

import httpx2

from onward import Agent, App, tool


@tool(effect="read", timeout_s=30)
async def look_up(order_id: str) -> Any:
    """Look an order up: what was paid, and in which currency."""
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        # The id is Claude's text: unquoted, it could name any path of the service.
        reply = await http.get(f"/orders/{quote(order_id, safe='')}")
    return reply.raise_for_status().json()  # an exception goes to Claude as an error result


app = App(
    Agent(
        "orders",
        model="claude-sonnet-5-5",
        system="You answer questions about orders. Look up what you are asked about.",
        tools=[look_up],
    )
)
