"""What a worker writes down about the tool's call: the requests that it made, the lines it ran.

The plan of faults is made from the recording of a call without any. One JSON line when a call
begins, one when it ends; so it also tells whether a paused worker's call is over.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Line = tuple[str, int]
"""A file, and the number of a line in it."""


@dataclass
class Request:
    """One request over a socket, and how often each point had been passed when it got there."""

    last_send: int
    """Passes of f5 up to the last write of this request."""
    asked: int = 0
    """Passes of f6 when its reply was first asked for; 0: never."""
    replied: int = 0
    """Passes of f7 when its reply began; 0: never."""


@dataclass(frozen=True)
class Recording:
    """One whole call of the tool."""

    requests: tuple[Request, ...] = ()
    lines: tuple[Line, ...] = ()
    """Lines of the tool's own file, in the order in which they were first reached."""
    took_s: float = 0.0


def write_begin(file: Path) -> None:
    """Note that a call has begun."""
    _write(file, {"begun": True})


def write_end(file: Path, recording: Recording) -> None:
    """Note that a call has ended, and what it did."""
    _write(file, {"ended": asdict(recording)})


def read(file: Path) -> Recording:
    """Return the last call that came to its end; an empty recording if none did."""
    ended = [entry["ended"] for entry in _entries(file) if "ended" in entry]
    if not ended:
        return Recording()
    return Recording(
        requests=tuple(Request(**request) for request in ended[-1]["requests"]),
        lines=tuple((path, number) for path, number in ended[-1]["lines"]),
        took_s=ended[-1]["took_s"],
    )


def idle(file: Path) -> bool:
    """Say whether every call that began has ended."""
    entries = _entries(file)
    return 2 * sum("ended" in entry for entry in entries) == len(entries)


def _write(file: Path, entry: dict[str, Any]) -> None:
    with file.open("a") as output:
        output.write(json.dumps(entry) + "\n")


def _entries(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]
