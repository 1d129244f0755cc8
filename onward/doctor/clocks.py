"""The clocks of Redis, of Temporal and of this machine, as far as they can be compared."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, cast

from redis.asyncio import Redis
from temporalio.client import Client

from onward.checks import Check
from onward.doctor.site import Absent, Site
from onward.workers.pollers import polled

_MOST_S = 5.0
_REMEMBERED_S = 300.0
"""How long Temporal names who polled."""
_WHY = (
    "Effects do not depend on it: leases are counted by Redis alone, limits in time by Temporal. "
    "But a run's times are told from both, and TLS and sign-ins fail with a clock that is far off. "
    "Let all machines follow one time server (NTP)"
)


async def look(site: Site) -> AsyncIterator[Check]:
    """Compare each server's clock with this machine's."""
    ahead = dict[str, float]()
    with suppress(Absent):
        ahead["Redis"] = await _redis_ahead(site.redis)
    with suppress(Absent):
        ahead |= await _temporal_ahead(site.temporal, site.settings.task_queue)
    if ahead:
        yield _compared(ahead)


def _compared(ahead: Mapping[str, float]) -> Check:
    figures = {"ahead_s": {name: round(seconds, 1) for name, seconds in ahead.items()}}
    off = [_words(name, seconds) for name, seconds in ahead.items() if abs(seconds) > _MOST_S]
    if off:
        return Check("clocks", "note", "; ".join(off), _WHY, figures)
    return Check("clocks", "ok", f"this machine and {' and '.join(ahead)} agree", figures=figures)


async def _redis_ahead(redis: Redis) -> float:
    """Seconds by which the server's clock is ahead of ours."""
    before = time.time()
    seconds, us = await cast("Any", redis).time()
    return float(seconds) + int(us) / 1e6 - (before + time.time()) / 2


async def _temporal_ahead(client: Client, task_queue: str) -> dict[str, float]:
    """Seconds by which it is ahead at least; nothing is known where nobody polled lately.

    What the server answers has no time in it. But it names only who polled in the last five minutes
    by its own clock, so that is between the newest poll and five minutes later.
    """
    polls = [each.last for each in await polled(client, task_queue)]
    if not polls:
        return {}
    ahead_s = max(polls).timestamp() - time.time()
    return {"Temporal": max(ahead_s, 0.0) or min(ahead_s + _REMEMBERED_S, 0.0)}


def _words(name: str, ahead_s: float) -> str:
    way = "ahead of" if ahead_s > 0 else "behind"
    return f"the clock of {name} is {abs(ahead_s):.0f} s {way} this machine's"
