"""A primary, its replica, and a Sentinel that promotes the replica when the primary dies."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from redis.asyncio import Redis

from onward.local_services import RedisServer
from onward.local_services.data_dir import held_folder
from onward.local_services.redis import find_valkey
from onward.testing import wait_until

S = TypeVar("S", bound=RedisServer)
NAME = "ledger"
PASSWORD, SENTINEL_PASSWORD = "of/the#server", "of@the?sentinel"


class Sentinel(RedisServer):
    """One Sentinel, whose word alone makes a failover."""

    primary_port: int

    def client(self) -> Any:
        """Make a client of it."""
        return Redis(host="127.0.0.1", port=self.ports[0], password=SENTINEL_PASSWORD)

    def _command(self) -> list[str]:
        config = self.folder / "sentinel.conf"
        config.write_text(f"""
            sentinel monitor {NAME} 127.0.0.1 {self.primary_port} 1
            sentinel auth-pass {NAME} {PASSWORD}
            sentinel down-after-milliseconds {NAME} 500
            sentinel failover-timeout {NAME} 2000
        """)
        own = ("--port", str(self.ports[0]), "--bind", "127.0.0.1", "--set-proc-title", "no")
        login = ("--requirepass", SENTINEL_PASSWORD)
        return [str(find_valkey()), str(config), "--sentinel", *own, *login]

    async def _answers(self) -> bool:
        async with self.client() as commands:
            return bool(await commands.ping())


@dataclass(frozen=True)
class Guarded:
    """The three of them."""

    primary: RedisServer
    replica: RedisServer
    sentinel: Sentinel

    @property
    def url(self) -> str:
        """The primary, by the Sentinels; the first of them is away."""
        hosts = f"127.0.0.1:1,127.0.0.1:{self.sentinel.ports[0]}"
        return (
            f"redis+sentinel://default:of%2Fthe%23server@{hosts}/{NAME}/0"
            "?sentinel_password=of%40the%3Fsentinel"
        )


@asynccontextmanager
async def guarded() -> AsyncGenerator[Guarded]:
    """Run the three until the block ends; when it begins, a failover is possible."""
    async with _running(RedisServer) as primary, _running(RedisServer) as replica:
        await _protect(primary)
        await _protect(replica, replicaof=primary)
        # A Sentinel asks who the replicas are when it begins, and then not for ten seconds.
        await wait_until(partial(_is_followed, primary), 20, what="a replica")
        async with _running(Sentinel, primary_port=primary.ports[0]) as sentinel:
            await wait_until(partial(_may_promote, sentinel), 20, what="a known replica")
            yield Guarded(primary, replica, sentinel)


@asynccontextmanager
async def _running(kind: type[S], **attributes: object) -> AsyncGenerator[S]:
    with held_folder(None, "redis") as folder:
        server = kind(folder, find_valkey())
        vars(server).update(attributes)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


async def _protect(server: RedisServer, *, replicaof: RedisServer | None = None) -> None:
    """Set the password, and of whom it is a replica, when it has answered without."""
    async with Redis.from_url(server.url) as redis:  # pyright: ignore[reportUnknownMemberType]
        commands: Any = redis
        await commands.config_set("repl-diskless-sync-delay", 0)
        if replicaof:
            await commands.replicaof("127.0.0.1", replicaof.ports[0])
        await commands.config_set("masterauth", PASSWORD)
        await commands.config_set("requirepass", PASSWORD)


async def _is_followed(primary: RedisServer) -> bool:
    async with Redis(host="127.0.0.1", port=primary.ports[0], password=PASSWORD) as redis:
        found: Any = await cast("Any", redis).info("replication")
        return bool(found.get("slave0", {}).get("state") == "online")


async def _may_promote(sentinel: Sentinel) -> bool:
    async with sentinel.client() as commands:
        known = await commands.execute_command("SENTINEL REPLICAS", NAME)
        return any(replica.get(b"master-link-status") == b"ok" for replica in known)
