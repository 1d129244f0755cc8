"""Tools with failpoints around their request, one for each effect class.

Their other side is the payments service (`PAYMENTS_URL`), and for `transactional` a SQLite file
(`TRANSACTIONS_DB`). `trouble` is a query that the payments service understands.
"""

import os
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import closing
from typing import Any

import httpx2

from onward import Agent, App, ToolContext, tool
from onward.failpoints import failpoint

VALID_S = 2.0
"""How long a request of `timed_refund` may be under way before the service refuses it."""
LOCKED_S = 60.0
"""How long `book_refund` waits for a writer: one that is paused holds its lock all the while."""


async def _halves(body: bytes) -> AsyncGenerator[bytes]:
    """Send a body in two pieces, with the point between them."""
    yield body[: len(body) // 2]
    failpoint("f5")
    yield body[len(body) // 2 :]
    failpoint("f6")


async def _post(path: str, order: str, key: str, **more: str) -> Any:
    body = b'{"order": "%s", "amount_cents": 500}' % order.encode()
    headers = {
        "Idempotency-Key": key,
        "Content-Length": str(len(body)),
        "Content-Type": "application/json",
    }
    async with _service() as http:
        reply = await http.post(path, content=_halves(body), headers=headers | more)
    failpoint("f7")
    return reply.raise_for_status().json()


def _service() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"])


@tool(effect="keyed")
async def refund(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Refund an order once."""
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
    async with _service() as http:
        reply = await http.get(f"/orders/{order}")
    failpoint("f7")
    return reply.raise_for_status().json()


async def _seal(_call: dict[str, Any], ctx: ToolContext) -> Any:
    headers = {"Idempotency-Key": ctx.idempotency_key, "Fence": str(ctx.fence)}
    async with _service() as http:
        reply = await http.post("/seals", headers=headers)
    return reply.raise_for_status().json()["answer"]


@tool(effect="sealed", seal=_seal)
async def sealed_refund(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Refund an order, at a service that does not deduplicate but refuses a stale fence."""
    path, fence = f"/sealed/refunds?{trouble}", str(ctx.fence)
    return await _post(path, order, ctx.idempotency_key, Fence=fence)


async def _check(_call: dict[str, Any], ctx: ToolContext) -> Any:
    async with _service() as http:
        reply = await http.get(f"/checks/{ctx.idempotency_key}")
    return reply.raise_for_status().json()["answer"]


@tool(effect="timed", check=_check, settle_s=VALID_S + 0.5)
async def timed_refund(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Refund an order, at a service that does not deduplicate but refuses what comes late."""
    lapses = f"{time.time() + VALID_S:.3f}"
    path = f"/plain/refunds?{trouble}"
    return await _post(path, order, ctx.idempotency_key, **{"Valid-Until": lapses})


@tool(effect="transactional")
def book_refund(order: str, ctx: ToolContext, trouble: str = "") -> Any:
    """Write a refund and its key in one transaction; nothing understands its `trouble`."""
    del trouble
    with closing(_database()) as db:
        db.execute("BEGIN IMMEDIATE")
        if not _is_known(db, ctx.idempotency_key):
            db.execute("INSERT INTO refunds VALUES (?)", (order,))
            failpoint("f5")
            db.execute("INSERT INTO keys VALUES (?)", (ctx.idempotency_key,))
            failpoint("f6")
        db.execute("COMMIT")
    failpoint("f7")
    return {"order": order}


def _database() -> sqlite3.Connection:
    db = sqlite3.connect(os.environ["TRANSACTIONS_DB"], timeout=LOCKED_S, isolation_level=None)
    db.execute("CREATE TABLE IF NOT EXISTS refunds (order_id TEXT NOT NULL)")
    db.execute("CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY)")
    return db


def _is_known(db: sqlite3.Connection, key: str) -> bool:
    return db.execute("SELECT 1 FROM keys WHERE key = ?", (key,)).fetchone() is not None


app = App(
    Agent(
        "tester",
        model="claude-sonnet-5-5",
        tools=[look_up, refund, book_refund, pay_out, sealed_refund, timed_refund],
    )
)
