"""What Claude writes, published while it comes, for whoever watches the run.

It is there to be seen and nothing depends on it: no error of Redis reaches the request, and nobody
waits for a Redis that hangs.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from redis.exceptions import RedisError
from temporalio import activity

from onward.live.fragments import Fragment, fragment_of, joined
from onward.live.stream import LiveAttempt, LiveStream

from .lease import Lease

BATCH_S = 0.2
"""Between two writes: a ledger's Redis brings every one of them to its disk. A reply that is whole
sooner is not published at all, because history has it then."""
MOST_BYTES, MOST_ENTRIES = 1024 * 1024, 10_000
"""Of one reply; the rest of a longer one is seen when it is whole."""
_GOODBYE_S = 0.1


class LiveReply:
    """Publishes one attempt's reply; use it in `async with`, around the request.

    `lease` is the attempt's own: one that wakes up after it ran out has a successor, and is silent.
    """

    def __init__(self, stream: LiveStream, attempt: LiveAttempt, lease: Lease) -> None:
        self._stream, self._attempt, self._lease = stream, attempt, lease
        self._pending: list[Fragment] = []
        self._publishing: asyncio.Task[None] | None = None
        self._entries = self._bytes = 0
        self.over = False
        """Nothing more is published: the reply is whole or too long, or Redis failed."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.over = True
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.wait([self._publishing], timeout=_GOODBYE_S)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take the next event of the reply's stream. Raises nothing and waits for nobody."""
        fragment = fragment_of(event)
        if fragment is None or self.over:
            return
        self._pending.append(fragment)
        if self._publishing is None:
            self._publishing = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        try:
            while not self.over:
                await asyncio.sleep(BATCH_S)
                if self._pending:
                    await self._write()
        except (RedisError, OSError) as error:
            # A hole in the middle of a sentence would mislead: this reply is seen when it is whole.
            activity.logger.warning("cannot publish what Claude writes: %s", error)
        self.over = True

    async def _write(self) -> None:
        fragments = list(joined(self._pending))
        self._pending.clear()
        self._bytes += sum(len(each.text.encode(errors="surrogatepass")) for each in fragments)
        full = self._bytes > MOST_BYTES or self._entries >= MOST_ENTRIES
        self.over = self.over or full or not self._lease.fresh
        if self.over:
            return
        write = self._stream.add if self._entries else self._stream.begin
        await write(self._attempt, fragments)
        self._entries += 1
