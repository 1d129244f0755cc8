"""The Redis Stream that holds what Claude has written so far of a run's current reply.

One stream a run, of one attempt at one step at a time: an attempt's first entry drops whatever came
before it. An entry names its attempt, so that what a dead attempt's process writes when it wakes is
not taken for the living one's.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from onward.identity import run_key
from onward.live.fragments import Fragment

BEGINNING = "0"
"""Of a stream: before its first entry."""
_EXPIRES_MS = 600_000
_AT_ONCE = 1000


@dataclass(frozen=True)
class LiveAttempt:
    """One attempt at one step."""

    run_id: str
    """Of the workflow run: another branch of the run may have had the same step."""
    step: str
    token: str


@dataclass(frozen=True)
class Entry:
    """What was written at once."""

    id: str
    token: str
    fragments: tuple[Fragment, ...]
    begins: LiveAttempt | None = None
    """The attempt whose first entry this is."""


class LiveStream:
    """The stream of one run. Every method may raise redis' own errors."""

    def __init__(self, redis: Redis, workflow_id: str, first_run_id: str) -> None:
        self._redis: Any = redis
        self.key = f"onward:{{{run_key(workflow_id, first_run_id)}}}:live"

    async def begin(self, attempt: LiveAttempt, fragments: Sequence[Fragment]) -> None:
        """Write an attempt's first entry, in place of all that there was."""
        # Trimmed, not deleted: the ids that readers have seen must go on growing.
        named = {"run_id": attempt.run_id, "step": attempt.step}
        await self._add({**_fields(attempt, fragments), **named}, maxlen=1, approximate=False)

    async def add(self, attempt: LiveAttempt, fragments: Sequence[Fragment]) -> None:
        """Write a further entry of an attempt."""
        await self._add(_fields(attempt, fragments))

    async def read(self, after: str, *, wait_ms: int) -> list[Entry]:
        """Read the entries after an id, at most 1,000; none: in `wait_ms` there came none."""
        found = await self._redis.xread({self.key: after}, count=_AT_ONCE, block=wait_ms)
        return [_entry(*each) for _, entries in found for each in entries]

    async def _add(self, fields: dict[str, str], **options: Any) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xadd(self.key, fields, **options)
            pipe.pexpire(self.key, _EXPIRES_MS)
            await pipe.execute()


def _fields(attempt: LiveAttempt, fragments: Sequence[Fragment]) -> dict[str, str]:
    # In ASCII: no encoding can carry half of a surrogate pair.
    told = json.dumps([(each.block, each.what, each.text) for each in fragments])
    return {"token": attempt.token, "fragments": told}


def _entry(entry_id: bytes, fields: dict[bytes, bytes]) -> Entry:
    told = {name.decode(): value.decode() for name, value in fields.items()}
    begins = LiveAttempt(told["run_id"], told["step"], told["token"]) if "step" in told else None
    fragments = tuple(Fragment(*each[:3]) for each in json.loads(told["fragments"]))
    return Entry(entry_id.decode(), told["token"], fragments, begins)
