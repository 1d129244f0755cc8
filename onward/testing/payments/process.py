"""The payments service from outside: started, killed, and its books read."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from onward.testing.processes import ServiceProcess


@dataclass(frozen=True)
class Arrival:
    """A request that reached the service, whole or not."""

    n: int
    """In the order of arrival, from 1."""
    t: float
    """When its headers came, Unix seconds."""
    endpoint: str
    key: str | None
    """Its Idempotency-Key."""
    fence: int | None
    """Its Fence."""
    state: Literal["arrived", "whole", "broken"]
    """How much of the body came: some so far, all, or some before the connection broke."""
    body: str
    """As much as came."""
    body_sha256: str
    status: int | None
    """The HTTP status that was decided on, whether or not it arrived."""


@dataclass(frozen=True)
class Effect:
    """A refund that was made."""

    n: int
    t: float
    """When, Unix seconds."""
    request: int
    """`n` of the request that made it."""
    key: str | None
    order: str
    amount_cents: int


class PaymentsProcess(ServiceProcess):
    """A running payments service. Its books can be read while it runs and after its death."""

    db: Path

    @classmethod
    async def start(cls, db: Path, *, log: Path | None = None, port: int = 0) -> Self:
        """Start it over the SQLite file `db` (made if missing); port 0: a random one."""
        log = log or db.with_suffix(".log")
        args = ("--port", str(port), "--db", str(db))
        payments = await cls.start_module("onward.testing.payments", *args, log=log)
        payments.db = db
        return payments

    def requests(self) -> list[Arrival]:
        """Read every request that arrived, oldest first."""
        columns = "n, t, endpoint, key, fence, state, body, body_sha256, status"
        return [Arrival(*row) for row in self._read(f"SELECT {columns} FROM requests ORDER BY n")]  # noqa: S608

    def effects(self) -> list[Effect]:
        """Read every refund that was made, oldest first."""
        columns = "n, t, request, key, order_id, amount_cents"
        return [Effect(*row) for row in self._read(f"SELECT {columns} FROM effects ORDER BY n")]  # noqa: S608

    def _read(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.db)) as books:
            return books.execute(query).fetchall()


@asynccontextmanager
async def payments_service(db: Path) -> AsyncGenerator[PaymentsProcess]:
    """Run a payments service over the SQLite file `db` until the block ends."""
    payments = await PaymentsProcess.start(db)
    try:
        yield payments
    finally:
        await payments.stop()
