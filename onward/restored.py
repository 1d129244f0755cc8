"""After Redis was restored from a backup: make every run take its records for possibly too old.

A backup holds the birth nonce that the runs have in history, so a call that was claimed after it
was made would look as if it had never been sent. With another nonce nothing is taken for "never
sent" on the backup's word, and what Temporal's history knows is filled in again.
"""

import sys
import uuid
from collections.abc import Coroutine
from typing import Any

from redis.asyncio import Redis

from onward.connection import Target, connect, find_target, quiet_runtime
from onward.console import Output
from onward.errors import ConnectError, UsageError
from onward.figures import count
from onward.redis_server.connection import ledger_url, loaded, redis_client, redis_errors, shown
from onward.run_hashes import run_hashes
from onward.settings import Settings, load_settings
from onward.starting import pollers

# Never makes a hash that has gone meanwhile, or one that has no birth nonce.
_ROTATE = """
if redis.call('HEXISTS', KEYS[1], '_ds') == 0 then return 0 end
redis.call('HSET', KEYS[1], '_ds', ARGV[1])
return 1
"""


def restored(out: Output, *, yes: bool) -> Coroutine[Any, Any, int]:
    """Rotate the birth nonce of every run's hash, and say of how many.

    Raises UsageError where nobody says yes; the coroutine raises ConnectError without a Redis.
    """
    settings = load_settings()
    target = find_target(settings)
    url = ledger_url(settings, target)
    # Here and not in the coroutine: in an event loop Ctrl-C would not end the question.
    if not yes:
        _confirm(url)
    return _restored(settings, target, url, out)


def _confirm(url: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to confirm it. Add --yes")
    sys.stderr.write(
        f"Was {shown(url)} restored from a backup, and are all workers stopped? Calls that were "
        "under way at the crash will be in doubt or be sent again with the same key. [y/N] "
    )
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("not confirmed; nothing was changed")


async def _restored(settings: Settings, target: Target, url: str, out: Output) -> int:
    workers = await _workers(settings, target, out)
    redis = redis_client(url)
    try:
        async with redis_errors(url):
            await loaded(redis, out.note)
            rotated = await rotate(redis)
    finally:
        await redis.aclose()
    if out.as_json:
        out.json({"redis": shown(url), "runs": rotated, "workers": workers})
    else:
        out.result(
            f"{count(rotated, 'run')} will not trust the backup; what is missing is filled in from "
            "Temporal's history. Start the workers"
        )
    return 0


async def _workers(settings: Settings, target: Target, out: Output) -> list[str] | None:
    """Warn of workers that may be at work on the backup; None: Temporal cannot be asked."""
    try:
        client = await connect(settings, target, runtime=quiet_runtime())
        found = sorted(set(await pollers(client, settings.task_queue)))
    except ConnectError as error:
        out.warn(f"cannot see whether all workers are stopped: {error}")
        return None
    if found:
        out.warn(
            f"{count(len(found), 'worker')} polled {settings.task_queue!r} in the last minutes. "
            "One that still runs trusts the backup until this command is done, and may do again "
            "what was done since: stop all workers before Redis comes back"
        )
    return found


async def rotate(redis: Redis) -> int:
    """Give every run's hash another birth nonce; returns of how many runs."""
    script: Any = redis.register_script(_ROTATE)
    rotated = 0
    async for run in run_hashes(redis):
        rotated += int(await script(keys=[run.key], args=[uuid.uuid4().hex]))
    return rotated
