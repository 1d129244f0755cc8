"""Records in Redis of runs that Temporal does not know, and what removes them."""

import shlex
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any

from redis.asyncio import Redis
from temporalio.client import Client

from onward.connection import Target, connect, find_target, quiet_runtime
from onward.console import Output
from onward.figures import count
from onward.redis_server.connection import ledger_url, redis_client, redis_errors, shown
from onward.redis_server.memory import run_bytes, size
from onward.redis_server.url import SENTINEL
from onward.run_hashes import RunHash, run_hashes
from onward.settings import load_settings
from onward.workers.janitor import fate

_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Orphan:
    """Records of a run that Temporal does not know."""

    key: str
    workflow_id: str
    bytes: int
    idle_s: int | None
    """Seconds since its last claim; None where nothing was ever claimed."""
    expires_s: int | None
    """Seconds until they vanish; None: they stay."""


async def list_orphans(out: Output) -> int:
    """List records of runs that Temporal does not know, and say how to remove them.

    Raises ConnectError where Temporal or Redis does not answer.
    """
    settings = load_settings()
    target = find_target(settings)
    client = await connect(settings, target, runtime=quiet_runtime())
    url = ledger_url(settings, target)
    redis = redis_client(url)
    try:
        async with redis_errors(url):
            found = [orphan async for orphan in _orphans(redis, client)]
    finally:
        await redis.aclose()
    _show(found, target, url, out)
    return 0


async def _orphans(redis: Redis, client: Client) -> AsyncIterator[Orphan]:
    async for run in run_hashes(redis):
        if await fate(client, run) == "unknown":
            yield await _orphan(redis, run)


async def _orphan(redis: Redis, run: RunHash) -> Orphan:
    commands: Any = redis
    now_s, _ = await commands.time()
    last_claim_ms = await commands.hget(run.key, "_fence")
    ttl_ms = await commands.pttl(run.key)
    return Orphan(
        key=run.key,
        workflow_id=run.workflow_id,
        bytes=await run_bytes(redis, run),
        idle_s=None if last_claim_ms is None else int(now_s) - int(last_claim_ms) // 1000,
        expires_s=None if ttl_ms < 0 else ttl_ms // 1000,
    )


def _show(found: list[Orphan], target: Target, url: str, out: Output) -> None:
    if out.as_json:
        out.json({"orphans": [asdict(orphan) for orphan in found]})
        return
    if not found:
        out.say("no orphans: Temporal knows the run of every record")
        return
    rows = [(o.key, size(o.bytes), _span(o.idle_s), _span(o.expires_s)) for o in found]
    out.table(("records", "size", "last claim, ago", "vanish in"), rows)
    out.say(
        f"{count(len(found), 'run')} that Temporal at {target.address}, namespace "
        f"{target.namespace!r}, does not know. If no other namespace uses this Redis, remove the "
        f"records of the first with:\n  {removal(found[0].key, url)}\n"
        f"For another run, put what its line begins with in place of {found[0].key}"
    )


def removal(key: str, url: str) -> str:
    """Write the shell command that removes a run's hash and the results beside it."""
    client = f"redis-cli {_where(url)}"
    found = f"{client} --scan --pattern {shlex.quote(f'{key}*')}"
    return f"{found} | xargs -d '\\n' {client} unlink"


def _where(url: str) -> str:
    """Write how redis-cli reaches the server; it knows neither Sentinels nor options in a URL."""
    if "?" in url or SENTINEL in url:
        tls = " --tls --cacert FILE" if url.startswith("rediss") else ""
        return f"-h HOST -p PORT --user USER --askpass{tls}"
    return '-u "$ONWARD_REDIS_URL"' if shown(url) != url else f"-u {shlex.quote(url)}"


def _span(seconds: int | None) -> str:
    if seconds is None:
        return "never"
    length, unit = next((s for s in _SPANS if seconds >= s[0]), _SPANS[-1])
    return f"{max(seconds, 0) // length} {unit}"
