"""The heartbeat of one activity attempt, beside its work."""

import asyncio
from types import TracebackType
from typing import Any, Self

from temporalio import activity

_LONGEST_S = 0.5
"""A cancel reaches an attempt in the answer to a beat, so beats come often whatever the setting."""


class Pulse:
    """Beats at least three times in every `takeover_s` seconds while the attempt lives.

    `details` goes out with each beat, and after it `doing`, which is for people. An attempt that
    ends before the first beat sends none: a beat costs the server as much as an event.
    """

    def __init__(self, takeover_s: float) -> None:
        self._beat_every_s = min(takeover_s / 3, _LONGEST_S)
        self._beating: asyncio.Task[None] | None = None
        self.details: Any = None
        self.doing = ""

    async def __aenter__(self) -> Self:
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    def beat(self) -> None:
        """Beat now: what a dying attempt says last must not wait for the next beat."""
        doing = (self.doing,) if self.doing else ()
        activity.heartbeat(self.details, *doing)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._beat_every_s)
            self.beat()
