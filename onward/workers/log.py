"""What a worker says while it works: a line for what may fail, a trace for what should not."""

import logging
import sys
from typing import Any

from temporalio.exceptions import ApplicationError

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_ACTIVITIES = "temporalio.activity"
START = "onward.worker"
"""Logger that is told what a worker found at its start, and what a person should look at."""


def set_up(level: int = logging.WARNING) -> None:
    """Send warnings to standard error, and what a worker found at its start to standard output.

    With `logging.DEBUG`, traces of everything.
    """
    logging.basicConfig(level=level, format=_FORMAT)
    logging.getLogger(_ACTIVITIES).addFilter(OneLine())
    start = logging.getLogger(START)
    start.setLevel(logging.INFO)
    start.propagate = False
    lines = logging.StreamHandler(sys.stdout)
    lines.setFormatter(_Lines())
    start.addHandler(lines)


class _Lines(logging.Formatter):
    """Prints as commands do."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return f"warning: {text}" if record.levelno >= logging.WARNING else text


class OneLine(logging.Filter):
    """Says in one line how an activity failed that says itself what happened and what follows.

    The SDK prints its whole stack, forty lines for a wrong key. The failure is in history anyway.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record. A cancel is no failure, so it is left out."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, ApplicationError) or record.levelno < logging.WARNING:
            return True
        info: dict[str, Any] = getattr(record, "temporal_activity", {})
        run, name = info.get("workflow_id", "?"), info.get("activity_type", "?")
        record.msg, record.args = "%s: %s: %s", (run, name, error.message)
        record.exc_info = record.exc_text = None
        return error.type != "cancelled"
