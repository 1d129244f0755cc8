"""What happens in a run, one event after another, for code."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from onward.connection import Connection
from onward.live.documents import document
from onward.live.happenings import Happening
from onward.live.place import THE_END
from onward.runs import describe


@dataclass(frozen=True)
class Event:
    """Something that happened in a run."""

    happening: Happening
    id: str = ""
    """Where the run's events go on after this one: `events(after=id)`. Empty of what does not last,
    such as a piece of a reply that is being written: go on after the last event that has one."""

    @property
    def document(self) -> dict[str, Any]:
        """The same as JSON, as `onward watch --json` prints it."""
        return document(self.happening)


async def events(
    connection: Connection, run_id: str, *, all_steps: bool, after: str
) -> AsyncGenerator[Event, None]:
    """Yield what happens until the run has ended; see `RunHandle.events`."""
    from onward.live.following import Following  # noqa: PLC0415  (loads the Redis client)

    run = await describe(connection.client, run_id)
    if after == THE_END:
        return
    queue = asyncio.Queue[Event | None]()

    def show(happening: Happening, place: str) -> None:
        queue.put_nowait(Event(happening, place))

    following = Following(connection, run, show, all_steps=all_steps, after=after)
    task = asyncio.create_task(following.to_the_end())
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
