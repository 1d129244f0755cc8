"""Tools against the payments service, with failpoints around their request, one for each class."""

import os
from collections.abc import AsyncGenerator
from typing import Any

import httpx2

from onward import Agent, App, ToolContext, tool
from onward.failpoints import failpoint


async def _halves(body: bytes) -> AsyncGenerator[bytes]:
    """Send a body in two pieces, with the point between them."""
    yield body[: len(body) // 2]
    failpoint("f5")
    yield body[len(body) // 2 :]
    failpoint("f6")


async def _post(path: str, order: str, key: str) -> Any:
    body = b'{"order": "%s", "amount_cents": 500}' % order.encode()
    headers = {
        "Idempotency-Key": key,
        "Content-Length": str(len(body)),
        "Content-Type": "application/json",
    }
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        reply = await http.post(path, content=_halves(body), headers=headers)
    failpoint("f7")
    return reply.raise_for_status().json()


@tool(effect="keyed")
async def refund(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Refund an order once; `trouble` is a query that the payments service understands."""
    return await _post(f"/refunds?{trouble}", order, ctx.idempotency_key)


@tool
async def pay_out(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Pay out, at a service that does not deduplicate."""
    return await _post(f"/plain/refunds?{trouble}", order, ctx.idempotency_key)


@tool(effect="read")
async def look_up(order: str) -> Any:
    """Look at an order; the service counts who looks."""
    failpoint("f5")
    failpoint("f6")
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        reply = await http.get(f"/orders/{order}")
    failpoint("f7")
    return reply.raise_for_status().json()


app = App(Agent("tester", model="claude-sonnet-5-5", tools=[refund, pay_out, look_up]))
