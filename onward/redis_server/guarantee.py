"""Which guarantee a Redis server can keep: strict, or lossy with the reasons in plain words.

Strict means: what the server acknowledged is never lost and never forgotten, so a record that is
absent was never written. On a lossy server Onward also asks whether it is still the same server
process, and where that is not certain an `at_most_once` call ends in doubt, never in a second
effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import ResponseError

from onward.errors import UsageError
from onward.redis_server.memory import Memory

_WANTED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}


@dataclass(frozen=True)
class Guarantee:
    """What the ledger may promise on a server, for the line that the worker prints at start."""

    strict: bool
    reasons: tuple[str, ...]
    """Of lossy: what is missing, one phrase each. Of strict: what makes it so."""
    evicts: bool
    """The server may throw records away when it is full: not to be used."""
    memory: Memory
    mode: str = "standalone"
    """As INFO has it. `cluster` and `sentinel` are of no use here."""
    replica: bool = False
    """It copies another server, and refuses every write."""

    @property
    def cluster(self) -> bool:
        """It is one of several servers that share the keys."""
        return self.mode == "cluster"

    @property
    def used(self) -> float | None:
        """Share of `maxmemory` in use, 0 to 1; None without a limit."""
        return self.memory.share

    def __str__(self) -> str:
        return f"{'strict' if self.strict else 'lossy'}: {', '.join(self.reasons)}"


async def guarantee(redis: Redis) -> Guarantee:
    """Read the server's settings and say which guarantee they give.

    Raises redis.exceptions.RedisError where the server does not answer. A server that does not show
    its settings (many managed ones) is lossy, not an error.
    """
    info = _texts(await cast("Any", redis).info("everything"))
    missing = [*await _unsafe_settings(redis), *_unsafe_topology(info), *_unsafe_client(redis)]
    policy = info.get("maxmemory_policy", "unknown")
    if policy != "noeviction":
        missing.append(f"maxmemory-policy {policy}, which may drop records")
    kept = ("appendfsync always", "noeviction", "single primary")
    return Guarantee(
        strict=not missing,
        reasons=tuple(missing) or kept,
        evicts=policy not in ("noeviction", "unknown"),
        memory=Memory.of(info),
        mode=info.get("redis_mode") or info.get("server_mode", "standalone"),
        replica=info.get("role") == "slave",
    )


def refuse_mode(found: Guarantee) -> None:
    """Raise `UsageError` where the server is one of a cluster's, a replica, or a Sentinel."""
    if found.replica:
        raise UsageError(
            "this Redis is a replica, which takes no writes, so no effect could begin. Name its "
            "primary in ONWARD_REDIS_URL"
        )
    if found.cluster:
        raise UsageError(
            "this Redis is a cluster: other servers of it hold most of the keys, and Onward's "
            "client asks one server only. Set ONWARD_REDIS_URL to a Redis with cluster mode off; "
            "for failover, to one behind Redis Sentinel or a service's primary endpoint"
        )
    if found.mode == "sentinel":
        raise UsageError(
            "this is a Redis Sentinel, which keeps no data. Set ONWARD_REDIS_URL to "
            "redis+sentinel://host:26379/NAME/0, with the name by which it knows the primary"
        )


def refuse_eviction(found: Guarantee) -> None:
    """Raise `UsageError` where the server may drop records to make room for others."""
    if found.evicts:
        raise UsageError(
            f"this Redis may drop records when it is full ({found}). Expected maxmemory-policy "
            "noeviction: set it (CONFIG SET maxmemory-policy noeviction, and in redis.conf), or "
            "start with --allow-eviction if calls in doubt are no harm to you"
        )


async def _unsafe_settings(redis: Redis) -> list[str]:
    try:
        found = _texts(await cast("Any", redis).config_get(*_WANTED))
    except ResponseError:
        return ["its settings cannot be read (CONFIG is refused)"]
    return [
        f"{name} {found.get(name, 'unknown')}"
        for name, value in _WANTED.items()
        if found.get(name) != value
    ]


def _unsafe_topology(info: Mapping[str, str]) -> list[str]:
    replicas = int(info.get("connected_slaves", "0"))
    checks = (
        (info.get("role") != "master", f"a replica (role {info.get('role')})"),
        (replicas > 0, f"{replicas} replica(s) that may take over without the last writes"),
        (info.get("cluster_enabled") == "1", "a cluster, which is not supported"),
        (_was_replica(info), "a promoted replica, which may lack the last writes of its primary"),
        (info.get("aof_last_write_status") == "err", "its append-only file cannot be written"),
    )
    return [reason for wrong, reason in checks if wrong]


def _unsafe_client(redis: Redis) -> list[str]:
    # While its replica is away a primary looks single. Sentinel promotes that one all the same.
    if isinstance(redis.connection_pool, SentinelConnectionPool):
        return ["behind Sentinel, which may promote a replica without the last writes"]
    return []


def _was_replica(info: Mapping[str, str]) -> bool:
    # The id of the primary that it followed; zeros where it followed none since its start.
    return info.get("role") == "master" and bool(info.get("master_replid2", "").strip("0"))


def _texts(found: Mapping[Any, object]) -> dict[str, str]:
    # A client that does not decode gives bytes; INFO's numbers come parsed.
    return {_text(name): _text(value) for name, value in found.items()}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
