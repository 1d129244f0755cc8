"""What anyone can see without asking Onward: the other side's own books, while they are written.

The journal of the scripted Messages API server and the tables of the payments service. Both are
files of other processes, so no bug of ours can make them say what we would like to hear.
"""

import json
from pathlib import Path
from typing import Any

from onward.testing.payments import PaymentsProcess


class ClaudeRequests:
    """Follows the journal; reads each line once, because it is looked at a hundred times a second.

    Steps are numbered from 1 here, as everywhere in Onward; in the journal they count assistant
    turns, from 0.
    """

    def __init__(self, journal: Path) -> None:
        self._path = journal
        self._offset = 0
        self._open: dict[int, int] = {}
        self.last_step = 0
        """The highest step that was asked for."""
        self.made = 0
        self.latest = 0.0
        """When the last request arrived, seconds since the epoch."""

    def waiting(self, step: int) -> bool:
        """Tell whether a request for this step has arrived and is not yet answered."""
        self.look()
        return step in self._open.values()

    def look(self) -> None:
        """Read what is new."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                self._note(json.loads(line))

    def _note(self, record: dict[str, Any]) -> None:
        if record["event"] != "arrived":
            self._open.pop(record["n"], None)
            return
        step = int(record["step"]) + 1
        self._open[record["n"]] = step
        self.last_step = max(self.last_step, step)
        self.made += 1
        self.latest = record["t"]


class Payments:
    """Looks at the payments service's tables."""

    def __init__(self, service: PaymentsProcess) -> None:
        self._service = service

    def arrived(self, order: str) -> bool:
        """Tell whether a whole request for this order has come and is not yet answered."""
        return any(
            request.state == "whole" and request.status is None and f'"{order}"' in request.body
            for request in self._service.requests()
        )

    def latest(self) -> float:
        """Return when the last request arrived, seconds since the epoch; 0: none has."""
        return max((request.t for request in self._service.requests()), default=0.0)

    def applied(self, order: str) -> bool:
        """Tell whether this order's refund is made, while its request is not yet answered."""
        made = any(effect.order == order for effect in self._service.effects())
        return made and self.arrived(order)
