"""What the tests' shared Redis holds in the end: keys of known kinds, none for ever by mistake."""

from typing import Any

from redis.asyncio import Redis

from onward.redis_server.keys import is_left_behind


async def left_behind(redis: Redis) -> list[str]:
    """Find keys of Onward's that no kind knows, and those for ever whose kind must expire."""
    commands: Any = redis
    keys = [key async for key in commands.scan_iter(match="onward:*", count=1000)]
    async with commands.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.pttl(key)
        ttls = await pipe.execute()
    names = [key if isinstance(key, str) else key.decode() for key in keys]
    found = zip(names, ttls, strict=True)
    return sorted(name for name, ttl in found if is_left_behind(name, expires=ttl != -1))
