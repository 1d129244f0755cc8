"""What reached the scripted server, counted where no client can lie about it.

The file has two lines for each request, joined by `n`: one when it arrived, flushed before any
answer, so that a client killed while it waited is still counted; and one when it was answered.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, overload

from pydantic import BaseModel


class Entry(BaseModel):
    """One request to `/v1/messages`."""

    n: int
    """Order of arrival, from 1."""
    t: float
    """Arrival, seconds since the epoch."""
    script: str = ""
    step: int = 0
    """Assistant turns in the request."""
    attempt: int = 0
    """Of this identical body, from 1."""
    conversation: str = ""
    """Equal for requests of one script with the same first message."""
    body_sha256: str = ""
    body: str = ""
    headers: Mapping[str, str] = {}
    """The ones that a test may want to see; never the key."""
    key_sha8: str = ""
    """First eight hex digits of the key's SHA-256."""
    results_in_order: bool | None = None
    """The last message's tool results come in the order of their calls; None: it has none."""
    violations: Sequence[str] = ()
    """Names of all checks that the request failed."""
    outcome: str = ""
    """What was sent, in words; empty while the request is open."""
    status: int | None = None
    message_id: str = ""
    usage: Mapping[str, Any] = {}
    """Of the scripted message; what a fault leaves of it is told."""
    events_sent: int = 0
    complete: bool = False
    """A whole message was written to the socket."""
    t_end: float | None = None


_OUTCOME = {
    *("violations", "outcome", "status", "message_id", "usage", "events_sent", "complete", "t_end")
}


class Journal(Sequence[Entry]):
    """All requests so far, in order of arrival; a sequence of entries."""

    def __init__(self, path: Path | None = None) -> None:
        """Keep entries in memory, and in the JSON lines file `path` if one is given.

        A file that is there already is continued: numbers and attempts go on from it, so that a
        restarted server does not repeat its faults.
        """
        self._entries = read_journal(path) if path else []
        self._attempts = Counter(entry.body_sha256 for entry in self._entries)
        self._path = path
        self._file: IO[str] | None = None

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        """Return one entry or a slice of them."""
        return self._entries[index]

    def __len__(self) -> int:
        """Return the number of requests that arrived."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Go through the entries in order of arrival."""
        return iter(self._entries)

    def of(self, script: str) -> list[Entry]:
        """Return the requests of one script."""
        return [entry for entry in self._entries if entry.script == script]

    def identical_bodies(self, script: str | None = None) -> dict[str, int]:
        """Return how often each body arrived, by its SHA-256, over all scripts or one."""
        chosen = self._entries if script is None else self.of(script)
        return dict(Counter(entry.body_sha256 for entry in chosen))

    def violations(self) -> list[str]:
        """Return `n: name` for every failed check, for `assert not journal.violations()`."""
        return [f"{entry.n}: {name}" for entry in self._entries for name in entry.violations]

    def attempt(self, body_sha256: str) -> int:
        """Count one more arrival of a body and return how many there were, from 1."""
        self._attempts[body_sha256] += 1
        return self._attempts[body_sha256]

    def arrived(self, entry: Entry) -> None:
        """Record a request before anything is answered."""
        self._entries.append(entry)
        arrival = entry.model_dump(mode="json", exclude=_OUTCOME)
        self._write({"event": "arrived", **arrival})

    def answered(self, entry: Entry) -> None:
        """Record what became of a request that had arrived."""
        told = entry.model_dump(mode="json", include=_OUTCOME)
        self._write({"event": "outcome", "n": entry.n, **told})

    def close(self) -> None:
        """Close the file; entries stay readable."""
        if self._file:
            self._file.close()
            self._file = None

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def read_journal(path: Path) -> list[Entry]:
    """Return the entries of a journal file, also while its server runs; none if it is missing.

    A request without an outcome has an empty `outcome`. A last line that is still being written
    is left out.
    """
    entries: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            record: dict[str, Any] = json.loads(line)
            entries.setdefault(record["n"], {}).update(record)
    return [Entry.model_validate(record) for record in entries.values()]
