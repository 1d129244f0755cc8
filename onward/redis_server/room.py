"""Whether there is room for a new run in the ledger's Redis. Running ones go on in any case."""

from collections.abc import Callable
from typing import Any, cast

from redis.exceptions import RedisError

from onward.connection import Target
from onward.errors import RedisFull
from onward.invoked import typed
from onward.redis_server.connection import ledger_url, redis_client, shown
from onward.redis_server.memory import FULL, Memory
from onward.settings import Settings


async def check_room(settings: Settings, target: Target, warn: Callable[[str], None]) -> None:
    """Refuse a new run where Redis is more than 80 % full.

    A server that cannot be asked is only a warning, and none where nobody said where it is: the
    workers are connected to it, this command need not be.

    Raises:
        RedisFull: new runs are refused; says how full it is and what to do.
        UsageError: ONWARD_REDIS_URL is no Redis URL.

    """
    url = ledger_url(settings, target)
    redis = redis_client(url)
    try:
        memory = Memory.of(await cast("Any", redis).info("memory"))
    except (RedisError, OSError) as error:
        if settings.redis_is_configured or target.source == "local":
            warn(f"cannot see how full the Redis at {shown(url)!r} is: {error}")
        return
    finally:
        await redis.aclose()
    if memory.full:
        raise RedisFull(
            f"the ledger's Redis at {shown(url)!r} is too full for a new run: {memory}, and above "
            f"{FULL:.0%} what is left is for the runs that go on. Raise its maxmemory, or let runs "
            f"end (`{typed('doctor', '--orphans')}` lists records that no run owns); then "
            "start this one again"
        )
