"""The renewal of an attempt's claims while it works.

A loop apart from the heartbeat: a Redis that hangs must not stop the heartbeat, and a heartbeat
must not wait for a lease.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from redis.exceptions import RedisError

log = logging.getLogger(__name__)

Renew = Callable[[], Awaitable[bool]]
"""Pushes the lease; False: another attempt owns the claim now."""


class Lease:
    """Renews what it holds three times in every `takeover_s` seconds, until the block ends.

    When a claim turns out lost, `lost` is set and the task that entered the block is cancelled.
    """

    def __init__(self, takeover_s: float) -> None:
        self._takeover_s, self._renew_every_s = takeover_s, takeover_s / 3
        self._renewed = time.monotonic()
        self._own: Renew | None = None  # of the call itself, whose lease `fresh` is about
        self._tasks: list[asyncio.Task[None]] = []
        self._attempt: asyncio.Task[Any] | None = None
        self.lost = False

    async def __aenter__(self) -> Self:
        self._attempt = asyncio.current_task()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        # A renewal that is under way may come back from its cancel, and find the record done: that
        # is no loss, and must not turn the attempt's result into a failure.
        self._attempt = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def fresh(self) -> bool:
        """The claim's lease has not run out."""
        return time.monotonic() - self._renewed < self._takeover_s

    def hold(self, renew: Renew, *, lease_binds: bool = False) -> None:
        """Renew a claim from now on. `lease_binds`: where that fails too long, the attempt ends."""
        self._own = self._own or renew
        self._tasks.append(asyncio.create_task(self._renew(renew)))
        if lease_binds:
            self._tasks.append(asyncio.create_task(self._end_with_lease()))

    async def _end_with_lease(self) -> None:
        while self.fresh:  # noqa: ASYNC110  (renewals put the moment off: no event to wait for)
            await asyncio.sleep(self._renewed + self._takeover_s - time.monotonic())
        self._lose()

    async def _renew(self, renew: Renew) -> None:
        while True:
            await asyncio.sleep(self._renew_every_s)
            began = time.monotonic()
            try:
                if not await renew():
                    break
                if renew is self._own:
                    self._renewed = began
            except RedisError as error:
                # Leases only decide patience: a renewal missed is no reason to stop the work.
                log.warning("cannot renew the claim: %s", error)
        self._lose()

    def _lose(self) -> None:
        self.lost = True
        if self._attempt is not None:
            self._attempt.cancel()
