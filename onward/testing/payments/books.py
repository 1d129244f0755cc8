"""The payments service's SQLite file: what arrived, what was done, what was answered."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;  -- what was answered must be there after a kill -9 of anything
CREATE TABLE IF NOT EXISTS requests (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    t REAL NOT NULL,             -- arrival of the headers, Unix seconds
    endpoint TEXT NOT NULL,      -- path
    key TEXT,                    -- Idempotency-Key
    fence INTEGER,               -- Fence
    state TEXT NOT NULL,         -- arrived, whole, broken
    body TEXT NOT NULL,          -- as much as has come
    body_sha256 TEXT NOT NULL,   -- of that
    status INTEGER               -- the HTTP status that was decided on
);
CREATE TABLE IF NOT EXISTS effects (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    t REAL NOT NULL,
    request INTEGER NOT NULL REFERENCES requests (n),
    key TEXT,
    order_id TEXT NOT NULL,
    amount_cents INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,
    body_sha256 TEXT NOT NULL,
    status INTEGER NOT NULL,
    answer TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS seals (
    key TEXT PRIMARY KEY,
    fence INTEGER NOT NULL       -- a lower one is refused
);
"""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: status and JSON text."""

    status: int
    text: str


@dataclass(frozen=True)
class Refund:
    """A refund that is asked for."""

    request: int
    """Number of the request that asks for it."""
    key: str | None
    order: str
    amount_cents: int
    valid_until: float | None = None
    """After this it is refused, Unix seconds; None: it never is."""


class Books:
    """The service's side of its file; one connection, used by one thread."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(_SCHEMA)

    def arrived(self, endpoint: str, key: str | None, fence: int | None) -> int:
        """Record a request whose headers have come; returns its number."""
        row = self._db.execute(
            "INSERT INTO requests (t, endpoint, key, fence, state, body, body_sha256)"
            " VALUES (?, ?, ?, ?, 'arrived', '', ?)",
            (time.time(), endpoint, key, fence, sha256(b"")),
        )
        return int(row.lastrowid or 0)

    def received(self, request: int, body: bytes, state: str) -> None:
        """Record the body as far as it has come."""
        self._db.execute(
            "UPDATE requests SET state = ?, body = ?, body_sha256 = ? WHERE n = ?",
            (state, body.decode(errors="replace"), sha256(body), request),
        )

    def answered(self, request: int, status: int) -> None:
        """Record what was decided; whether the answer arrives is not known here."""
        self._db.execute("UPDATE requests SET status = ? WHERE n = ?", (status, request))

    def earlier_arrivals(self, request: int) -> int:
        """Count the requests before this one of the same endpoint, key and body."""
        row = self._db.execute(
            "SELECT count(*) FROM requests AS earlier JOIN requests AS this ON this.n = ?"
            " WHERE earlier.n < this.n AND earlier.endpoint = this.endpoint"
            " AND earlier.key IS this.key AND earlier.body_sha256 = this.body_sha256",
            (request,),
        ).fetchone()
        return int(row[0])

    def refund(self, asked: Refund) -> Answer:
        """Make a refund, whatever was made before."""
        with self._transaction():
            return _too_late(asked) or self._new_refund(asked)

    def refund_once(self, asked: Refund) -> Answer:
        """Make one refund for each key, and give its answer again."""
        with self._transaction():
            answer = self._remembered(asked) or _too_late(asked)
            if answer is None:
                answer = self._new_refund(asked)
                self._remember(asked, answer)
        return answer

    def refund_unless_sealed(self, asked: Refund, fence: int) -> Answer:
        """Make a refund, whatever was made before, unless the key is sealed for a higher fence."""
        with self._transaction():
            return self._stale(asked.key, fence) or _too_late(asked) or self._new_refund(asked)

    def seal(self, key: str, fence: int) -> Answer:
        """Refuse every lower fence from now on, and say whether the key's refund was made.

        Both in one transaction: a request between them would be neither seen nor refused.
        """
        with self._transaction():
            stale = self._stale(key, fence)
            if stale is not None:
                return stale
            self._db.execute(
                "INSERT OR REPLACE INTO seals (key, fence) VALUES (?, ?)", (key, fence)
            )
            return _said({"key": key, "fence": fence, "answer": self._made(key)})

    def check(self, key: str) -> Answer:
        """Say whether a refund with the key was made, by its answer or null."""
        return _said({"key": key, "answer": self._made(key)})

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _remember(self, asked: Refund, answer: Answer) -> None:
        self._db.execute(
            "INSERT INTO answers (key, body_sha256, status, answer)"
            " SELECT ?, body_sha256, ?, ? FROM requests WHERE n = ?",
            (asked.key, answer.status, answer.text, asked.request),
        )

    def _remembered(self, asked: Refund) -> Answer | None:
        row = self._db.execute(
            "SELECT a.status, a.answer, a.body_sha256 = r.body_sha256 AS same"
            " FROM answers AS a JOIN requests AS r ON r.n = ? WHERE a.key = ?",
            (asked.request, asked.key),
        ).fetchone()
        if row is None:
            return None
        if not row["same"]:
            return refusal(422, f"Idempotency-Key {asked.key!r} was used before with another body")
        return Answer(row["status"], row["answer"])

    def _stale(self, key: str | None, fence: int) -> Answer | None:
        row = self._db.execute("SELECT fence FROM seals WHERE key = ?", (key,)).fetchone()
        if row is None or fence >= row["fence"]:
            return None
        return refusal(409, "stale fence", fence=fence, seal=row["fence"])

    def _new_refund(self, asked: Refund) -> Answer:
        row = self._db.execute(
            "INSERT INTO effects (t, request, key, order_id, amount_cents) VALUES (?, ?, ?, ?, ?)",
            (time.time(), asked.request, asked.key, asked.order, asked.amount_cents),
        )
        return _said(_refund_made(row.lastrowid, asked.order, asked.amount_cents), status=201)

    def _made(self, key: str) -> dict[str, object] | None:
        """Return the answer to the first refund with a key; None: there is none."""
        row = self._db.execute(
            "SELECT n, order_id, amount_cents FROM effects WHERE key = ? ORDER BY n", (key,)
        ).fetchone()
        return None if row is None else _refund_made(*row)

    def audit(self) -> dict[str, list[dict[str, object]]]:
        """Return both tables, oldest first."""
        return {
            table: [dict(row) for row in self._db.execute(f"SELECT * FROM {table} ORDER BY n")]  # noqa: S608
            for table in ("requests", "effects")
        }


def refusal(status: int, why: str, **details: object) -> Answer:
    """Build the answer to a request that does nothing."""
    return _said({"error": why, **details}, status=status)


def _said(answer: dict[str, object], *, status: int = 200) -> Answer:
    return Answer(status, json.dumps(answer))


def _refund_made(number: int | None, order: str, amount_cents: int) -> dict[str, object]:
    return {"refund": f"re_{number}", "order": order, "amount_cents": amount_cents}


def _too_late(asked: Refund) -> Answer | None:
    now = time.time()
    if asked.valid_until is None or now <= asked.valid_until:
        return None
    return refusal(410, "too late", now=now, valid_until=asked.valid_until)


def sha256(body: bytes) -> str:
    """Hash a body as the tables hold it."""
    return hashlib.sha256(body).hexdigest()
