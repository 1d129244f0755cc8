"""The janitor: lets the records of runs expire whose end nobody told the ledger.

A run that was terminated, or whose last activity never reached Redis, has no `end` in the ledger,
and a late operation of a zombie takes an end back. So Temporal is asked, run by run. A call that
was given up under a business key of all runs leaves that without an expiry, too. One janitor works
at a time, in whichever worker comes first; two at once would do no harm.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError
from temporalio.client import Client

from onward.errors import NoSuchRun, OnwardError, PayloadError, UsageError
from onward.ledger import Ledger
from onward.lifetime import BUSINESS_KEY_KEPT_MS, records_ttl_ms
from onward.messages import RunRef
from onward.run_hashes import RunHash, run_hashes, shared_hashes
from onward.runs import look
from onward.workers.beside import beside

LOCK = "onward:{janitor}"

Fate = Literal["open", "closed", "unknown"]
Swept = Counter[Fate]
"""How many runs of each fate a sweep saw."""

_log = logging.getLogger(__name__)


async def fate(client: Client, run: RunHash) -> Fate:
    """Ask Temporal what became of a run; `unknown` where it does not know the run (any more).

    Raises ConnectError where Temporal does not answer.
    """
    try:
        # Without a run id: the first run of a chain of continuations is closed while the run is on.
        current = await look(client, run.workflow_id)
        if not current.first_run_id:  # a server too old to tell
            return "unknown"
        if current.first_run_id == run.first_run_id:
            return "open" if current.open else "closed"
        # Another chain has the id now, so an older one of it has ended. But a Redis may serve two
        # namespaces, and in the other one that run may be open: this one must know it too.
        await look(client, run.workflow_id, run.first_run_id)
    except (NoSuchRun, UsageError, PayloadError):
        return "unknown"
    return "closed"


def _ref(workflow_id: str, first: str) -> RunRef:
    return RunRef(workflow_id=workflow_id, first_run_id=first, run_id=first, original_run_id=first)


class Janitor:
    """Sweeps over all runs of a Redis, again and again."""

    def __init__(self, redis: Redis, temporal: Client, *, every_s: float) -> None:
        self._redis, self._temporal, self._every_s = redis, temporal, every_s

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """Work beside the block, and end with it."""
        async with beside(self.work()):
            yield

    async def work(self) -> None:
        """Sweep whenever it is time and no other worker does; until cancelled."""
        while True:
            try:
                if await self.takes_turn():
                    await self.sweep()
            except (OnwardError, RedisError, OSError) as error:
                _log.warning("the janitor could not finish: %s. It tries again later", error)
            await asyncio.sleep(self._every_s)

    async def sweep(self) -> Swept:
        """Look at every run once; one that Temporal does not know is left as it is.

        Raises ConnectError or redis.exceptions.RedisError where a server is away.
        """
        ttl_ms, swept = await records_ttl_ms(self._temporal), Swept()
        async for run in run_hashes(self._redis):
            found = await fate(self._temporal, run)
            await self._apply(found, run, ttl_ms)
            swept[found] += 1
        async for key in shared_hashes(self._redis):
            await self._shared(key).end(BUSINESS_KEY_KEPT_MS, if_unset=True)
        return swept

    async def _apply(self, found: Fate, run: RunHash, ttl_ms: int) -> None:
        ledger = self._ledger(run)
        if found == "closed":
            await ledger.end(ttl_ms, if_unset=True)
        elif found == "open":
            await ledger.records()  # any look-up takes an expiry back

    def _ledger(self, run: RunHash) -> Ledger:
        return Ledger(self._redis, _ref(run.workflow_id, run.first_run_id), strict=False)

    def _shared(self, key: str) -> Ledger:
        return Ledger(self._redis, _ref("", ""), strict=False, key=key)

    async def takes_turn(self) -> bool:
        """Whether no worker has begun a sweep within the interval; this one begins one now."""
        # Never released: that other workers find it is also what spaces the sweeps of them all.
        lease_ms = int(self._every_s * 1000)
        return bool(await cast("Any", self._redis).set(LOCK, "1", nx=True, px=lease_ms))
