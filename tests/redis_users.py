"""Redis users that may do some things and not others."""

from collections.abc import Sequence
from typing import Any, cast

from redis.asyncio import Redis

USER, PASSWORD = "app", "pw"


async def may(redis: Redis, commands: Sequence[str], *, keys: Sequence[str]) -> None:
    """Make the user `app`, password `pw`, that may do exactly this."""
    await cast("Any", redis).acl_setuser(
        USER,
        enabled=True,
        reset=True,
        passwords=[f"+{PASSWORD}"],
        keys=keys,
        commands=commands,
    )
