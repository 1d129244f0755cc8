"""The connection to the ledger's Redis: which server, the client, and its errors in plain words."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
)

from onward.connection import Target
from onward.errors import ConnectError, UsageError
from onward.redis_server.causes import answers, cause
from onward.redis_server.sentinel import sentinel_client
from onward.redis_server.url import Place, parse, shown
from onward.settings import Settings

__all__ = ["ledger_url", "loaded", "redis_client", "redis_errors", "shown"]

_LOADING_POLL_S = 0.2
_MOST_CONNECTIONS = 1000
"""More than a worker's 200 activities need at once, each for a call and what it tells beside it: by
default the client has 100, and fails calls beyond them whenever the server is slow for a moment."""


def ledger_url(settings: Settings, target: Target) -> str:
    """Say where the ledger's Redis is: beside an embedded Temporal, else where settings say."""
    if target.source == "local":
        # Only a folder with a local worker pays for loading what starts servers.
        from onward.local_services import read_local  # noqa: PLC0415

        addresses = read_local(settings.data_dir)
        return addresses.redis_url if addresses else settings.redis_url
    return settings.redis_url


def redis_client(url: str) -> Redis:
    """Make the ledger's client. Raises `UsageError` for what is no Redis URL."""
    place = parse(url)
    options: dict[str, Any] = {
        "max_connections": _MOST_CONNECTIONS,
        "socket_connect_timeout": 2,
        "socket_timeout": 5,
        # Each ledger operation may be repeated, so one retry covers a connection that went stale. A
        # primary that was demoted keeps its connections: they are dropped, or each write would go
        # on to fail there while the name leads to the new primary long since.
        "retry": Retry(NoBackoff(), 1),
        "retry_on_error": [ReadOnlyError],
    }
    make = sentinel_client if place.sentinels else _direct_client
    client = make(place, **options)
    _check_options(client, url)
    return client


def _direct_client(place: Place, **options: Any) -> Redis:
    pool = ConnectionPool(**{**options, **place.options})
    return Redis.from_pool(cast("Any", pool))


def _check_options(client: Redis, url: str) -> None:
    # redis-py looks at an option when it first connects, and then says a type error.
    try:
        cast("Any", client).connection_pool.make_connection()
    except (TypeError, RedisError) as error:
        raise UsageError(
            f"ONWARD_REDIS_URL is {shown(url)!r}: {str(error).rpartition('got an ')[2]}. Options, "
            "after the ?, are those of redis-py's connections; ssl_… needs rediss://"
        ) from error


@asynccontextmanager
async def redis_errors(url: str) -> AsyncGenerator[None]:
    """Turn a server that cannot be reached or used inside the block into `ConnectError`."""
    try:
        yield
    except (RedisError, OSError) as error:
        what = "cannot use the Redis" if answers(error) else "no Redis"
        raise ConnectError(f"{what} at {shown(url)!r}: {cause(error, url)}.") from error


async def loaded(redis: Redis, say: Callable[[str], None]) -> None:
    """Wait while the server reads its data, as long as that takes; `say` that it does, once.

    Raises redis.exceptions.RedisError where it does not answer at all.
    """
    told = False
    while True:
        try:
            await cast("Any", redis).ping()
        except BusyLoadingError:
            if not told:
                say("Redis is loading its data; waiting for it")
            told = True
            await asyncio.sleep(_LOADING_POLL_S)
        except NoPermissionError:
            return  # it answers; what we may not do is for `onward.redis_server.permissions` to say
        else:
            return
