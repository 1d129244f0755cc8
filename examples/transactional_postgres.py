"""`transactional`: an effect in your own database, here PostgreSQL.

The effect and the call's key are written in one transaction, so either both are there or neither
is. That needs no other service, and holds whatever becomes of Redis.

    psql "$DATABASE_URL" -f examples/accounts.sql
"""

import os
from typing import Annotated, Any

import psycopg
from pydantic import Field

from onward import Agent, App, NotSent, Rejected, ToolContext, tool


def _connected() -> psycopg.Connection:
    try:
        return psycopg.connect(os.environ["DATABASE_URL"], connect_timeout=10)
    except psycopg.OperationalError as error:
        # Said plainly, because Onward cannot tell this failure from one in the middle of a commit.
        raise NotSent(f"no connection to the accounts: {error}") from error


@tool(effect="transactional", moves_money=True)
def credit(customer: str, amount_cents: Annotated[int, Field(gt=0)], ctx: ToolContext) -> Any:
    """Credit a customer's account, in cents."""
    with _connected() as db:  # one transaction: committed at the end, rolled back by an exception
        # The key first. If another attempt of this call is under way, this waits for its end, and
        # only then knows whether the key is new. Looking first would let both of them pass.
        key = [ctx.idempotency_key]
        new = db.execute("INSERT INTO calls (key) VALUES (%s) ON CONFLICT DO NOTHING", key)
        if new.rowcount:
            _credit(db, customer, amount_cents, ctx.idempotency_key)
        told = db.execute("SELECT balance_cents FROM calls WHERE key = %s", key).fetchone()
    assert told is not None, "the row is there: this transaction or an earlier one wrote it"
    return {"customer": customer, "balance_cents": told[0]}


def _credit(db: psycopg.Connection, customer: str, amount_cents: int, key: str) -> None:
    """Make the effect, and keep with the key what every attempt shall be told."""
    changed = db.execute(
        "UPDATE accounts SET balance_cents = balance_cents + %s WHERE customer = %s"
        " RETURNING balance_cents",
        [amount_cents, customer],
    ).fetchone()
    if changed is None:
        raise Rejected(f"There is no account of {customer!r}. Nothing was credited.")
    db.execute("UPDATE calls SET balance_cents = %s WHERE key = %s", [changed[0], key])


app = App(
    Agent(
        "accounts",
        model="claude-sonnet-5-5",
        system="You keep customers' accounts.",
        tools=[credit],
    )
)
