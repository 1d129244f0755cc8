"""A client of whichever server Redis Sentinel calls the primary at the moment."""

from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from onward.redis_url import Place


def sentinel_client(place: Place, **options: Any) -> Redis:
    """Make a client; `options` hold for connections to the Sentinels as well."""
    user, password = place.sentinel_login
    ssl = {name: value for name, value in place.options.items() if name.startswith("ssl_")}
    login = {"username": user, "password": password, "ssl": place.tls, **ssl}
    sentinel = cast("Any", Sentinel)(place.sentinels, sentinel_kwargs={**login, **options})
    kind = SentinelManagedSSLConnection if place.tls else SentinelManagedConnection
    every = {**options, **place.options, "connection_class": kind}
    return Redis.from_pool(cast("Any", _Pool)(place.service, sentinel, **every))


class _Pool(SentinelConnectionPool):
    """Connections to the primary, and those to the Sentinels, which redis-py leaves open."""

    async def aclose(self) -> None:
        await super().aclose()
        await cast("Any", self.sentinel_manager).aclose()
