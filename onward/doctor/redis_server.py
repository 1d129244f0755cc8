"""The ledger's Redis: what it is, what we may do there, and what it can promise."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from onward.checks import Check
from onward.doctor.site import Site
from onward.errors import UsageError
from onward.invoked import typed
from onward.pausing.switch import Switch, in_words
from onward.redis_server.connection import shown
from onward.redis_server.guarantee import Guarantee, guarantee, refuse_mode
from onward.redis_server.memory import FULL, run_sizes
from onward.redis_server.permissions import SCRATCH, missing_permissions, missing_to_watch

_KEEPS = "CONFIG SET appendonly yes, CONFIG SET appendfsync always, and the same in redis.conf"


async def look(site: Site) -> AsyncIterator[Check]:
    """Look at a server that answers."""
    redis = site.redis
    yield await _server(redis, site.redis_url)
    async for check in _permissions(redis):
        yield check
    async for check in _promises(redis):
        yield check
    async for check in _paused(redis, site.target.namespace):
        yield check


async def _promises(redis: Redis) -> AsyncIterator[Check]:
    try:
        found = await guarantee(redis)
    except NoPermissionError as error:
        yield Check("guarantee", "wrong", f"cannot be read: {error}")
        return
    yield _guarantee(found)
    if not (found.replica or found.cluster):
        async for check in _writes(redis):
            yield check
    yield _persistence(await cast("Any", redis).info("persistence"))
    yield _memory(found)
    if sizes := await run_sizes(redis):
        yield Check("open runs", "ok", str(sizes), figures=asdict(sizes))


async def _server(redis: Redis, url: str) -> Check:
    try:
        info = await cast("Any", redis).info("server")
    except NoPermissionError:  # said below, with what grants it
        return Check("Redis", "ok", shown(url))
    kind = str(info.get("server_name", "redis"))
    version = str(info.get(f"{kind}_version", info.get("redis_version", "of unknown version")))
    mode = str(info.get("redis_mode") or info.get("server_mode", "standalone"))
    figures = {"server": kind, "version": version, "mode": mode}
    return Check("Redis", "ok", f"{shown(url)}, {kind} {version}, {mode}", figures=figures)


async def _permissions(redis: Redis) -> AsyncIterator[Check]:
    missing = await missing_permissions(redis)
    if missing:
        todo = f"An administrator grants it with: {missing.grant}"
        yield Check("permissions", "wrong", str(missing), todo, asdict(missing))
    else:
        yield Check("permissions", "ok", f"user {missing.user!r} may do all that Onward needs")
    if unseen := await missing_to_watch(redis):
        blind = f"{unseen}: `watch` shows each reply when it is whole"
        yield Check("watching", "note", blind, f"To see them written: {unseen.grant}")


async def _writes(redis: Redis) -> AsyncIterator[Check]:
    """Try to write; that a permission or room is missing is told by other lines."""
    try:
        await cast("Any", redis).set(SCRATCH, "", px=1000)
    except (NoPermissionError, OutOfMemoryError):
        return
    except ResponseError as error:
        todo = "No effect begins while that is so: look at the server's settings and log"
        yield Check("writes", "wrong", f"refused: {error}", todo)


def _guarantee(found: Guarantee) -> Check:
    figures = {"strict": found.strict, "reasons": found.reasons, "evicts": found.evicts}
    try:
        refuse_mode(found)
    except UsageError as error:
        return Check("guarantee", "wrong", str(error), figures=figures)
    if found.evicts:
        todo = "Set maxmemory-policy noeviction; workers refuse this server"
        return Check("guarantee", "wrong", str(found), todo, figures)
    return Check("guarantee", "ok" if found.strict else "note", str(found), figures=figures)


def _persistence(info: Mapping[str, Any]) -> Check:
    failed = [*_failed_writes(info)]
    figures = {"aof": str(info.get("aof_enabled")) == "1", "failed": failed}
    if failed:
        todo = "Look at the server's log and disk; what it acknowledges may be gone after a restart"
        return Check("persistence", "wrong", "; ".join(failed), todo, figures)
    if not figures["aof"]:
        found = "no append-only file: a restart forgets what came since the last snapshot"
        todo = f"Calls that were under way then end in doubt. To keep records: {_KEEPS}"
        return Check("persistence", "note", found, todo, figures)
    return Check("persistence", "ok", "an append-only file, written without error", figures=figures)


def _failed_writes(info: Mapping[str, Any]) -> Iterator[str]:
    for field, what in (
        ("aof_last_write_status", "the append-only file could not be written"),
        ("aof_last_bgrewrite_status", "the append-only file could not be rewritten"),
        ("rdb_last_bgsave_status", "the last snapshot failed"),
    ):
        if str(info.get(field, "ok")) != "ok":
            yield what


def _memory(found: Guarantee) -> Check:
    memory = found.memory
    figures = {"used_bytes": memory.used, "limit_bytes": memory.limit}
    if not memory.full:
        return Check("memory", "ok", str(memory), figures=figures)
    todo = f"Above {FULL:.0%} new runs are refused: raise maxmemory, or let runs end"
    return Check("memory", "wrong", str(memory), todo, figures)


async def _paused(redis: Redis, namespace: str) -> AsyncIterator[Check]:
    """Look which agents people have paused."""
    try:
        paused = await Switch(redis, namespace).paused()
    except ResponseError:  # no permission, or a cluster; said above, with what to do
        return
    if paused:
        agents = {agent: each.model_dump(mode="json") for agent, each in paused.items()}
        found = "; ".join(in_words(*each) for each in paused.items())
        lift = " and ".join(f"`{typed('resume', '--agent', agent)}`" for agent in paused)
        todo = f"{lift} {'lifts it' if len(paused) == 1 else 'lift it'}"
        yield Check("paused agents", "note", found, todo, {"agents": agents})
