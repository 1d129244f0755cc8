"""`transactional`: an effect in your own database, here a SQLite file.

The same as transactional_postgres.py, where one machine is enough.

    sqlite3 accounts.db < examples/accounts.sql
"""

import os
import sqlite3
from contextlib import closing
from typing import Annotated, Any

from pydantic import Field

from onward import Agent, App, Rejected, ToolContext, tool

WAIT_S = 30.0
"""How long a call waits for another writer; the file has one at a time."""


@tool(effect="transactional", moves_money=True)
def credit(customer: str, amount_cents: Annotated[int, Field(gt=0)], ctx: ToolContext) -> Any:
    """Credit a customer's account, in cents."""
    file = os.environ["ACCOUNTS_DB"]
    with closing(sqlite3.connect(file, timeout=WAIT_S, isolation_level=None)) as db:
        # IMMEDIATE: the write lock before the look. Two attempts that look first, both without a
        # lock, would both find no key.
        db.execute("BEGIN IMMEDIATE")
        balance = _told_before(db, ctx.idempotency_key)
        if balance is None:
            balance = _credit(db, customer, amount_cents, ctx.idempotency_key)
        db.execute("COMMIT")  # not reached after an exception: closing the file rolls back
    return {"customer": customer, "balance_cents": balance}


def _told_before(db: sqlite3.Connection, key: str) -> int | None:
    row = db.execute("SELECT balance_cents FROM calls WHERE key = ?", [key]).fetchone()
    return None if row is None else int(row[0])


def _credit(db: sqlite3.Connection, customer: str, amount_cents: int, key: str) -> int:
    """Make the effect, and keep with the key what every attempt shall be told."""
    changed = db.execute(
        "UPDATE accounts SET balance_cents = balance_cents + ? WHERE customer = ?"
        " RETURNING balance_cents",
        [amount_cents, customer],
    ).fetchone()
    if changed is None:
        raise Rejected(f"There is no account of {customer!r}. Nothing was credited.")
    db.execute("INSERT INTO calls VALUES (?, ?)", [key, changed[0]])
    return int(changed[0])


app = App(
    Agent(
        "accounts",
        model="claude-sonnet-5-5",
        system="You keep customers' accounts.",
        tools=[credit],
    )
)
