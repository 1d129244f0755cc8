"""Tools that break the promise of their class, each in one way, for the crash test to find.

Beside them tools that keep it. Their other side is the payments service (`PAYMENTS_URL`) or a
SQLite file (`BOOKS_DB`).
"""

import os
import sqlite3
import time
import urllib.request
from contextlib import closing, suppress
from http.client import HTTPException
from typing import Any

import httpx2

from onward import Rejected, ToolContext, tool

_TIMEOUT_S = 30.0


async def _post(path: str, order: str, **headers: str) -> Any:
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        body = {"order": order, "amount_cents": 500}
        return (await http.post(path, json=body, headers=headers)).raise_for_status().json()


def _pay(order: str) -> bytes:
    """Do the same as a sync client does it: headers and body apart, `sendall` and `recv_into`."""
    request = urllib.request.Request(  # noqa: S310
        f"{os.environ['PAYMENTS_URL']}/plain/refunds",
        data=b'{"order": "%s", "amount_cents": 500}' % order.encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
        said: bytes = reply.read()
    return said


# ---- they keep their promise


@tool(effect="keyed", moves_money=True, ask="always")
async def right(order: str, ctx: ToolContext) -> Any:
    """Refund an order once."""
    return await _post("/refunds", order, **{"Idempotency-Key": ctx.idempotency_key})


@tool
def right_payout(order: str) -> str:
    """Pay out, at most once."""
    return _pay(order).decode()


@tool(effect="transactional")
def right_booking(order: str, ctx: ToolContext) -> str:
    """Book a refund and its key in one transaction."""
    with closing(_books()) as db:
        db.execute("BEGIN IMMEDIATE")
        if not _known(db, ctx.idempotency_key):
            db.execute("INSERT INTO keys VALUES (?)", (ctx.idempotency_key,))
            db.execute("INSERT INTO refunds VALUES (?)", (order,))
        db.execute("COMMIT")
    return "booked"


# ---- they do not


@tool(effect="read")
def read_that_books(order: str) -> str:
    """Say that it reads."""
    with closing(_books()) as db:
        db.execute("INSERT INTO refunds VALUES (?)", (order,))
    return "nothing to see"


@tool(effect="keyed")
async def keyed_without_key(order: str) -> Any:
    """Ignore the key."""
    return await _post("/plain/refunds", order)


@tool(effect="keyed")
async def keyed_with_another_body(order: str, ctx: ToolContext) -> Any:
    """Put the time into the request: the repeat is another one, and refused."""
    noted = f"{order} at {time.time()}"
    return await _post("/refunds", noted, **{"Idempotency-Key": ctx.idempotency_key})


@tool
async def pays_twice(order: str) -> Any:
    """Make the request twice."""
    await _post("/plain/refunds", order)
    return await _post("/plain/refunds", order)


@tool
def retries(order: str) -> str:
    """Try again by itself."""
    with suppress(OSError, HTTPException):
        return _pay(order).decode()
    return _pay(order).decode()


@tool
def swallows(order: str) -> str:
    """Say that it is done whatever happens."""
    with suppress(OSError, HTTPException):
        _pay(order)
    return "done"


@tool
async def rejects_what_happened(order: str) -> Any:
    """Take a lost reply for a refusal."""
    try:
        return await _post("/plain/refunds", order)
    except httpx2.TransportError as error:
        raise Rejected("the payments service refused") from error


async def _seal(_call: dict[str, Any], ctx: ToolContext) -> Any:
    headers = {"Idempotency-Key": ctx.idempotency_key, "Fence": str(ctx.fence)}
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        return (await http.post("/seals", headers=headers)).raise_for_status().json()["answer"]


@tool(effect="sealed", seal=_seal)
async def sealed_without_fence(order: str, ctx: ToolContext) -> Any:
    """Send no fence, so that nothing refuses a late request."""
    return await _post("/plain/refunds", order, **{"Idempotency-Key": ctx.idempotency_key})


async def _check(_call: dict[str, Any], ctx: ToolContext) -> Any:
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        reply = await http.get(f"/checks/{ctx.idempotency_key}")
    return reply.raise_for_status().json()["answer"]


@tool(effect="timed", check=_check, settle_s=0.1)
async def timed_too_short(order: str, ctx: ToolContext) -> Any:
    """Let a request take effect a minute later, and call it settled after a moment."""
    lapses = {"Valid-Until": f"{time.time() + 60:.3f}"}
    key = {"Idempotency-Key": ctx.idempotency_key}
    return await _post("/plain/refunds", order, **key, **lapses)


@tool(effect="transactional")
def commits_twice(order: str, ctx: ToolContext) -> str:
    """Commit the refund, and then its key."""
    with closing(_books()) as db:
        if not _known(db, ctx.idempotency_key):
            db.execute("INSERT INTO refunds VALUES (?)", (order,))
            db.execute("INSERT INTO keys VALUES (?)", (ctx.idempotency_key,))
    return "booked"


@tool(effect="transactional")
def key_first(order: str, ctx: ToolContext) -> str:
    """Commit the key, and then the refund."""
    with closing(_books()) as db:
        if not _known(db, ctx.idempotency_key):
            db.execute("INSERT INTO keys VALUES (?)", (ctx.idempotency_key,))
            db.execute("INSERT INTO refunds VALUES (?)", (order,))
    return "booked"


def _books() -> sqlite3.Connection:
    db = sqlite3.connect(os.environ["BOOKS_DB"], timeout=_TIMEOUT_S, isolation_level=None)
    db.execute("CREATE TABLE IF NOT EXISTS refunds (order_id TEXT NOT NULL)")
    db.execute("CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY)")
    return db


def _known(db: sqlite3.Connection, key: str) -> bool:
    return db.execute("SELECT 1 FROM keys WHERE key = ?", (key,)).fetchone() is not None


# ---- the probe


def count(given: dict[str, Any]) -> int:
    """Count an order's bookings."""
    with closing(_books()) as db:
        counted = db.execute("SELECT count(*) FROM refunds WHERE order_id = ?", (given["order"],))
        return int(counted.fetchone()[0])


def count_all(_given: dict[str, Any]) -> int:
    """Count the bookings of all orders together."""
    with closing(_books()) as db:
        return int(db.execute("SELECT count(*) FROM refunds").fetchone()[0])


def count_nothing(_given: dict[str, Any]) -> str:
    """Answer no number."""
    return "many"
