"""All looks, in the order in which they are told. One that fails stops no other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import TimeoutError as RedisSilent

from onward.checks import Check
from onward.connection import Target
from onward.doctor import (
    app,
    claude_key,
    clocks,
    doubts,
    namespace,
    payloads,
    redis_server,
    spelling,
    versions,
    workers,
)
from onward.doctor.site import Absent, Site
from onward.errors import ConnectError
from onward.settings import Settings

Look = Callable[[Site], AsyncIterator[Check]]

LOOKS: dict[str, Look] = {
    "settings": spelling.look,
    "Temporal": namespace.look,
    "workers": workers.look,
    "progress": workers.progress,
    "doubts": doubts.look,
    "Redis": redis_server.look,
    "clocks": clocks.look,
    "payload folder": payloads.look,
    "app": app.look,
    "models": app.models,
    "key": claude_key.look,
    "versions": versions.look,
}


async def examine(settings: Settings, target: Target, *, call: bool) -> list[Check]:
    """Look at everything; with `call` ask Claude something, too, which costs a little."""
    site = Site(settings, target)
    looks = LOOKS | ({"call": claude_key.call} if call else {})
    async with site.visited():
        taken = await asyncio.gather(*(_take(site, *look) for look in looks.items()))
    return [check for checks in taken for check in checks]


async def _take(site: Site, name: str, look: Look) -> list[Check]:
    found = list(_missing(site, name))
    try:
        async for check in look(site):
            found.append(check)  # noqa: PERF401  (what was seen before one fails counts)
    except Absent:
        pass
    except (ConnectError, RedisAway, RedisSilent) as error:
        found.append(Check(name, "away", str(error)))
    except Exception as error:  # noqa: BLE001  (whatever it is, the others are looked at)
        found.append(Check(name, "wrong", f"cannot be looked at: {type(error).__name__}: {error}"))
    return found


def _missing(site: Site, name: str) -> Iterator[Check]:
    if name in site.missing:
        yield site.missing[name]
