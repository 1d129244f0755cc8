"""Whether a worker on this machine polls its task queue: the health check of a container.

    python -m onward.workers.polling

Exit code 0: one does; 1: none does; 2: wrong settings; 3: no Temporal.

It asks Temporal, not the process: a worker may live and have lost its server.
"""

import asyncio
import os
import socket
import sys
from datetime import UTC, datetime, timedelta

from onward.connection import connect, find_target, quiet_runtime
from onward.errors import ConnectError, OnwardError
from onward.settings import Settings, load_settings
from onward.starting import pollers

_RECENT = timedelta(minutes=2)
"""A poll that finds nothing to do lasts a minute, and tells of itself when it begins."""


async def polled_here(settings: Settings) -> bool:
    """Say whether a worker of this host polled the task queue in the last two minutes.

    Raises:
        ConnectError: Temporal does not answer.
        UsageError: Temporal's own settings are wrong.

    """
    client = await connect(settings, find_target(settings), runtime=quiet_runtime())
    since = datetime.now(UTC) - _RECENT
    found = await pollers(client, settings.task_queue, since=since)
    return any(identity.endswith(f"@{socket.gethostname()}") for identity in found)


def main() -> int:
    """Run the check; returns its exit code, and says on stderr what is wrong."""
    try:
        settings = load_settings()
        if asyncio.run(polled_here(settings)):
            return 0
    except OnwardError as error:
        return _says(f"error: {error}", 3 if isinstance(error, ConnectError) else 2)
    return _says(f"no worker of this machine polls the task queue {settings.task_queue!r}", 1)


def _says(text: str, status: int) -> int:
    print(text, file=sys.stderr)  # noqa: T201  (a command prints)
    return status


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # The SDK's threads sometimes crash an interpreter that exits the long way.
    os._exit(status)
