"""The payments service's SQLite file: what arrived, what was done, what was answered."""

import hashlib
import json
import sqlite3
import time
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
"""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: status and JSON text."""

    status: int
    text: str


class Books:
    """The service's side of its file; one connection, used by one thread."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(_SCHEMA)

    def arrived(self, endpoint: str, key: str | None) -> int:
        """Record a request whose headers have come; returns its number."""
        row = self._db.execute(
            "INSERT INTO requests (t, endpoint, key, state, body, body_sha256)"
            " VALUES (?, ?, ?, 'arrived', '', ?)",
            (time.time(), endpoint, key, sha256(b"")),
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

    def refund(
        self, request: int, key: str | None, order: str, amount_cents: int, *, once: bool
    ) -> Answer:
        """Make a refund; with `once`, one for each `key`, whose answer is given again.

        Effect and answer are one transaction, so of two requests with one key exactly one acts.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            answer = self._remembered(request, key) if once else None
            if answer is None:
                answer = self._new_refund(request, key, order, amount_cents)
                if once:
                    self._remember(request, key, answer)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        return answer

    def _remember(self, request: int, key: str | None, answer: Answer) -> None:
        self._db.execute(
            "INSERT INTO answers (key, body_sha256, status, answer)"
            " SELECT ?, body_sha256, ?, ? FROM requests WHERE n = ?",
            (key, answer.status, answer.text, request),
        )

    def _remembered(self, request: int, key: str | None) -> Answer | None:
        row = self._db.execute(
            "SELECT a.status, a.answer, a.body_sha256 = r.body_sha256 AS same"
            " FROM answers AS a JOIN requests AS r ON r.n = ? WHERE a.key = ?",
            (request, key),
        ).fetchone()
        if row is None:
            return None
        if not row["same"]:
            return refusal(422, f"Idempotency-Key {key!r} was used before with another body")
        return Answer(row["status"], row["answer"])

    def _new_refund(self, request: int, key: str | None, order: str, amount_cents: int) -> Answer:
        row = self._db.execute(
            "INSERT INTO effects (t, request, key, order_id, amount_cents) VALUES (?, ?, ?, ?, ?)",
            (time.time(), request, key, order, amount_cents),
        )
        made = {"refund": f"re_{row.lastrowid}", "order": order, "amount_cents": amount_cents}
        return Answer(201, json.dumps(made))

    def audit(self) -> dict[str, list[dict[str, object]]]:
        """Return both tables, oldest first."""
        return {
            table: [dict(row) for row in self._db.execute(f"SELECT * FROM {table} ORDER BY n")]  # noqa: S608
            for table in ("requests", "effects")
        }


def refusal(status: int, why: str) -> Answer:
    """Build the answer to a request that does nothing."""
    return Answer(status, json.dumps({"error": why}))


def sha256(body: bytes) -> str:
    """Hash a body as the tables hold it."""
    return hashlib.sha256(body).hexdigest()
