"""The agent whose runs are put under chaos: a tool of every effect class.

The other side is the payments service (`PAYMENTS_URL`), and for `transactional` a SQLite file
(`TRANSACTIONS_DB`). `pace` is a query that makes the service slow, so that a fault finds the call
under way.
"""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2

from onward import Agent, App, ToolContext, tool

FORGETFUL = "CHAOS_FORGETFUL"
"""Set: `refund` goes where keys are ignored and the first answer is lost; the audit must fail."""

_VALID_S = 2.0
"""How long a request of `timed_refund` may be under way before the service refuses it."""
_LOCKED_S = 60.0
"""How long a writer waits for one that is paused while it has SQLite's lock."""

_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS refunds (n INTEGER PRIMARY KEY AUTOINCREMENT, order_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, refund INTEGER NOT NULL);
"""


def _service() -> httpx2.AsyncClient:
    # Longer than any fault lasts: an answer that is only late is no reason for a doubt.
    return httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"], timeout=30)


async def _post(path: str, order: str, ctx: ToolContext, **headers: str) -> Any:
    async with _service() as http:
        reply = await http.post(
            path,
            json={"order": order, "amount_cents": 500},
            headers={"Idempotency-Key": ctx.idempotency_key} | headers,
        )
    return reply.raise_for_status().json()


@tool(effect="read")
async def look_up(order: str, pace: str = "") -> Any:
    """Look an order up."""
    del pace
    async with _service() as http:
        reply = await http.get(f"/orders/{order}")
    return reply.raise_for_status().json()


@tool
async def pay_out(order: str, ctx: ToolContext, pace: str = "") -> Any:
    """Pay out, at a service that does not deduplicate."""
    return await _post(f"/plain/refunds?{pace}", order, ctx)


@tool(effect="keyed")
async def refund(order: str, ctx: ToolContext, pace: str = "") -> Any:
    """Refund an order, at a service that carries out a key once."""
    if os.environ.get(FORGETFUL):
        return await _post("/plain/refunds?drop=1,0", order, ctx)
    return await _post(f"/refunds?{pace}", order, ctx)


async def _seal(_call: dict[str, Any], ctx: ToolContext) -> Any:
    headers = {"Idempotency-Key": ctx.idempotency_key, "Fence": str(ctx.fence)}
    async with _service() as http:
        reply = await http.post("/seals", headers=headers)
    return reply.raise_for_status().json()["answer"]


@tool(effect="sealed", seal=_seal)
async def sealed_refund(order: str, ctx: ToolContext, pace: str = "") -> Any:
    """Refund an order, at a service that does not deduplicate but refuses a stale fence."""
    return await _post(f"/sealed/refunds?{pace}", order, ctx, Fence=str(ctx.fence))


async def _check(_call: dict[str, Any], ctx: ToolContext) -> Any:
    async with _service() as http:
        reply = await http.get(f"/checks/{ctx.idempotency_key}")
    return reply.raise_for_status().json()["answer"]


@tool(effect="timed", check=_check, settle_s=_VALID_S + 0.5)
async def timed_refund(order: str, ctx: ToolContext, pace: str = "") -> Any:
    """Refund an order, at a service that does not deduplicate but refuses what comes late."""
    lapses = {"Valid-Until": f"{time.time() + _VALID_S:.3f}"}
    return await _post(f"/plain/refunds?{pace}", order, ctx, **lapses)


@tool(effect="transactional")
def book_refund(order: str, ctx: ToolContext, pace: str = "") -> Any:
    """Write a refund and its key in one transaction."""
    del pace
    with closing(transactions(Path(os.environ["TRANSACTIONS_DB"]))) as db:
        db.execute("BEGIN IMMEDIATE")
        found = db.execute("SELECT refund FROM keys WHERE key = ?", (ctx.idempotency_key,))
        number = (found.fetchone() or (None,))[0]
        if number is None:
            booked = db.execute("INSERT INTO refunds (order_id) VALUES (?)", (order,))
            number = booked.lastrowid
            db.execute("INSERT INTO keys VALUES (?, ?)", (ctx.idempotency_key, number))
        db.execute("COMMIT")
    return {"refund": f"tx_{number}", "order": order}


def transactions(file: Path) -> sqlite3.Connection:
    """Open the books of `book_refund`, made if missing."""
    db = sqlite3.connect(file, timeout=_LOCKED_S, isolation_level=None)
    db.executescript(_SCHEMA)
    return db


app = App(
    Agent(
        "chaos",
        model="claude-sonnet-5-5",
        tools=[look_up, refund, book_refund, pay_out, sealed_refund, timed_refund],
    )
)
