"""A client of whichever server Redis Sentinel calls the primary at the moment."""

from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.exceptions import RedisError

from onward.redis_server.url import Place


def sentinel_client(place: Place, **options: Any) -> Redis:
    """Make a client; `options` hold for connections to the Sentinels as well."""
    user, password = place.sentinel_login
    ssl = {name: value for name, value in place.options.items() if name.startswith("ssl_")}
    login = {"username": user, "password": password, "ssl": place.tls, **ssl}
    sentinel = cast("Any", _Sentinels)(place.sentinels, sentinel_kwargs={**login, **options})
    kind = SentinelManagedSSLConnection if place.tls else SentinelManagedConnection
    every = {**options, **place.options, "connection_class": kind}
    return Redis.from_pool(cast("Any", _Pool)(place.service, sentinel, **every))


class _Sentinels(Sentinel):
    """Those that know the primary. redis-py's error is a page long and tells no cause."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        try:
            return cast("tuple[str, int]", await cast("Any", super()).discover_master(service_name))
        except MasterNotFoundError as error:
            raise MasterNotFoundError(await self._found(service_name, str(error))) from None

    async def _found(self, name: str, text: str) -> str:
        asked, unanswered = len(self.sentinels), text.count(">)> - ")
        if "AuthenticationError" in text:
            return "a Sentinel does not let us in (sentinel_username, sentinel_password)"
        if unanswered < asked:
            return (
                f"its Sentinels know no {name!r} that is up ({unanswered} of {asked} do not answer)"
            )
        return f"none of its {asked} Sentinels answers ({await self._silence()})"

    async def _silence(self) -> str:
        """Say why the first of them does not answer."""
        try:
            await cast("Any", self.sentinels[0]).ping()
        except RedisError as error:
            return str(error).strip(" .")
        return "now one does"


class _Pool(SentinelConnectionPool):
    """Connections to the primary, and those to the Sentinels, which redis-py leaves open."""

    async def aclose(self) -> None:
        await super().aclose()
        await cast("Any", self.sentinel_manager).aclose()
