"""The workers of one task queue, told by each of them to the ledger's Redis while it lives.

Temporal knows who polled in the last minutes, but neither with which agents nor over which folder
of payloads, and it still names who is gone. A worker looks here before it takes work.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast
from urllib.parse import quote

from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from onward.errors import UsageError
from onward.workers.beside import beside
from onward.workers.presence import FORGOTTEN_S, Presence

_BEAT_S = 3.0
_LOOK_AGAIN_S = 0.05
_ROUND = 1000
_log = logging.getLogger(__name__)


class Company:
    """The workers that poll one task queue of one Temporal namespace."""

    def __init__(self, redis: Redis, namespace: str, task_queue: str) -> None:
        self._commands = cast("Any", redis)
        parts = (quote(part, safe="") for part in (namespace, task_queue))
        # No hash tag of a run has this name, and none ends where this one does.
        self.prefix = f"onward:{{workers}}:{':'.join(parts)}:"

    async def living(self) -> tuple[Presence, ...]:
        """Return all that gave a sign of life in the last ten seconds, the oldest first.

        Raises redis.exceptions.RedisError.
        """
        pattern = f"{self.prefix}*"
        keys = {key async for key in self._commands.scan_iter(match=pattern, count=_ROUND)}
        texts = [await self._commands.get(key) for key in keys]
        found = [Presence.model_validate_json(text) for text in texts if text]
        return tuple(sorted(found, key=_order))

    @asynccontextmanager
    async def present(self, me: Presence) -> AsyncGenerator[tuple[str, ...]]:
        """Be one of them beside the block; gives warnings about the others.

        Raises `UsageError` where one is there with which `me` cannot work, and
        redis.exceptions.RedisError where the server does not answer at the start. Of two that come
        at once and cannot work together, one stays.
        """
        seconds, us = await self._commands.time()
        me = me.model_copy(update={"since_ms": int(seconds) * 1000 + int(us) // 1000})
        try:
            await self._tell_if_room(me)
            async with beside(self._beat(me)):
                await self._admit(me)
            me = me.model_copy(update={"settled": True})
            await self._tell_if_room(me)
            warnings = [me.warning(other) for other in await self._others(me)]
            async with beside(self._beat(me)):
                yield tuple(filter(None, warnings))
        finally:
            with suppress(RedisError, OSError):  # away: it expires by itself
                await self._vanish(me)

    async def _admit(self, me: Presence) -> None:
        """Return once nobody is there that `me` cannot work with; raise where one stays."""
        # Both have told before they look, so the second of two sees the first. Had it looked before
        # and settled, it stays; if neither has, both know who came later, and the other waits until
        # that one has left: it may have looked just before we told.
        while bad := [other for other in await self._others(me) if me.quarrels(other)]:
            for other in bad:
                if other.settled or _order(other) < _order(me):
                    raise UsageError(me.refusal(other))
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _others(self, me: Presence) -> list[Presence]:
        return [each for each in await self.living() if each.id != me.id]

    async def _beat(self, me: Presence) -> None:
        """Give signs of life until cancelled."""
        away = False
        while True:
            await asyncio.sleep(_BEAT_S)
            try:
                if not await self._tell(me):
                    await self._warn_of_newcomers(me)
                away = False
            except (RedisError, OSError) as error:
                if not away:
                    _log.warning("cannot tell Redis that this worker lives: %s", error)
                away = True

    async def _warn_of_newcomers(self, me: Presence) -> None:
        # Who was paused, or whose Redis lost its keys, was nobody's company for a while: one that
        # came meanwhile found no reason not to stay.
        for other in await self._others(me):
            if objection := me.objection(other):
                _log.warning(
                    "while this worker gave no sign of life, %s came, and the two cannot work "
                    "together: %s",
                    other.name,
                    objection,
                )

    async def _tell_if_room(self, me: Presence) -> None:
        # A full server needs workers more than any other: they bring the runs to their ends, and
        # only then their records go.
        with suppress(OutOfMemoryError):
            await self._tell(me)

    async def _tell(self, me: Presence) -> bool:
        """Give a sign of life; returns whether the last one had not been forgotten."""
        key, text = f"{self.prefix}{me.id}", me.model_dump_json()
        return bool(await self._commands.set(key, text, px=FORGOTTEN_S * 1000, get=True))

    async def _vanish(self, me: Presence) -> None:
        # Not DEL, which the ledger's user need not be allowed.
        await self._commands.set(f"{self.prefix}{me.id}", "", px=1)


def _order(presence: Presence) -> tuple[int, str]:
    return (presence.since_ms, presence.id)
