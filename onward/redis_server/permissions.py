"""What the Redis user that we are must be allowed to do, and what of it is not allowed.

Found by trying, on a scratch key: `ACL DRYRUN` is itself a thing that few users may do.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from onward.errors import UsageError

KEYS = "onward:*"
SCRATCH, _ABSENT, _NO_SCRIPT = "onward:{doctor}", "onward:{doctor}:absent", "0" * 40

# A plain text stands at the scratch key for a second, so that hash commands are refused for its
# type after they were allowed, and nothing is left behind.
_TRIALS: dict[str, tuple[str, ...]] = {
    "evalsha": ("EVALSHA", _NO_SCRIPT, "0"),
    "script|load": ("SCRIPT LOAD", "return 1"),
    "script|exists": ("SCRIPT EXISTS", _NO_SCRIPT),
    "info": ("INFO", "server"),
    "ping": ("PING",),
    "time": ("TIME",),
    "scan": ("SCAN", "0", "COUNT", "1"),
    "set": ("SET", SCRATCH, "", "PX", "1000"),
    "get": ("GET", SCRATCH),
    "hget": ("HGET", SCRATCH, "f"),
    "hset": ("HSET", SCRATCH, "f", ""),
    "hkeys": ("HKEYS", SCRATCH),
    "hexists": ("HEXISTS", SCRATCH, "f"),
    "hgetall": ("HGETALL", SCRATCH),
    "persist": ("PERSIST", _ABSENT),
    "pttl": ("PTTL", SCRATCH),
    "pexpire": ("PEXPIRE", SCRATCH, "1000"),
}
_TRIALS_OF_WATCHING: dict[str, tuple[str, ...]] = {
    "xadd": ("XADD", _ABSENT, "NOMKSTREAM", "*", "f", ""),
    "xread": ("XREAD", "COUNT", "1", "STREAMS", _ABSENT, "0"),
}
NEEDED = tuple(_TRIALS)
"""Commands without which the ledger cannot work, as an ACL names them."""
HELPFUL = ("config|get", "memory|usage", *_TRIALS_OF_WATCHING)
"""Without these the server counts as lossy, the size of runs is not told, and people who watch a
run see each reply when it is whole."""


@dataclass(frozen=True)
class Missing:
    """What the user may not do."""

    user: str
    commands: tuple[str, ...]
    keys: bool
    """It may not read and write the keys `onward:*`."""

    def __bool__(self) -> bool:
        return self.keys or bool(self.commands)

    def __str__(self) -> str:
        parts = [f"run {', '.join(self.commands)}"] if self.commands else []
        if self.keys:
            parts.append(f"read and write the keys {KEYS}")
        return f"the Redis user {self.user!r} may not {' nor '.join(parts)}"

    @property
    def grant(self) -> str:
        """The command with which an administrator of the server grants it."""
        # The keys always: while a command is refused, nobody can tell whether they would be too.
        return " ".join(["ACL SETUSER", self.user, f"~{KEYS}", *(f"+{c}" for c in self.commands)])


async def missing_permissions(redis: Redis) -> Missing:
    """Try everything that the ledger does. Raises RedisError where the server does not answer."""
    return await _missing(redis, _TRIALS)


async def missing_to_watch(redis: Redis) -> Missing:
    """Try what showing replies as they are written needs. Raises as `missing_permissions`."""
    return await _missing(redis, _TRIALS_OF_WATCHING)


async def _missing(redis: Redis, trials: Mapping[str, tuple[str, ...]]) -> Missing:
    refused = dict[str, None]()
    for command, trial in trials.items():
        try:
            await cast("Any", redis).execute_command(*trial)
        except NoPermissionError as error:
            refused[_refused(error) or command] = None
        except ResponseError:
            continue  # wrong type, no such script, no memory left: it was allowed
    keys = refused.pop(KEYS, "") is None
    return Missing(_user(redis), tuple(refused), keys)


def _refused(error: NoPermissionError) -> str | None:
    """Read what was refused; not always what was tried, for a new connection may `select` first."""
    if "to access" in str(error):
        return KEYS
    found = re.search(r"to run the '([^']+)' command", str(error))
    return found[1] if found else None


async def refuse_missing(redis: Redis) -> None:
    """Raise `UsageError`, with the command that grants it, where something is not allowed."""
    missing = await missing_permissions(redis)
    if missing:
        raise UsageError(
            f"{missing}. An administrator of the server grants it with: {missing.grant}"
        )


def _user(redis: Redis) -> str:
    return str(redis.connection_pool.connection_kwargs.get("username") or "default")
