"""What a worker says while it works: a line for what may fail, a trace for what should not."""

import logging
from typing import Any

from temporalio.exceptions import ApplicationError

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_ACTIVITIES = "temporalio.activity"


def set_up(level: int = logging.WARNING) -> None:
    """Send warnings to standard error; with `logging.DEBUG`, traces of everything."""
    logging.basicConfig(level=level, format=_FORMAT)
    logging.getLogger(_ACTIVITIES).addFilter(OneLine())


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
