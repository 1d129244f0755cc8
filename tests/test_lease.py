import asyncio
from contextlib import suppress

from redis.exceptions import RedisError
from temporalio.testing import ActivityEnvironment

from activities.lease import Lease


async def test_a_renewal_under_way_at_the_end_fails_no_attempt() -> None:
    """An attempt that has recorded its result returns it.

    A renewal that Redis carries out after the record finds the claim gone, and the client's answer
    comes in spite of the cancel.
    """
    asked, recorded = asyncio.Event(), asyncio.Event()

    async def renew() -> bool:
        asked.set()
        with suppress(asyncio.CancelledError):
            await recorded.wait()
        return False

    async def attempt() -> str:
        async with Lease(takeover_s=0.03) as lease:
            lease.hold(renew)
            await asked.wait()
        return "recorded"

    assert await ActivityEnvironment().run(attempt) == "recorded"


async def test_a_lease_that_binds_ends_the_attempt_with_it() -> None:
    """Of `timed`: cut off from Redis, an attempt sends nothing once others may think so."""

    async def renew() -> bool:
        raise RedisError("away")

    async def attempt() -> str:
        async with Lease(takeover_s=0.05) as lease:
            lease.hold(renew, lease_binds=True)
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                return "ended" if lease.lost else "cancelled"
        return "went on"

    assert await ActivityEnvironment().run(attempt) == "ended"
