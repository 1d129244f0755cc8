import asyncio
from contextlib import suppress

from temporalio.testing import ActivityEnvironment

from activities.pulse import Pulse


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
        async with Pulse(takeover_s=0.03) as pulse:
            pulse.hold(renew)
            await asked.wait()
        return "recorded"

    assert await ActivityEnvironment().run(attempt) == "recorded"
