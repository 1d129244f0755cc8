"""A cancel that comes while the ledger is repaired: what the repair was for does not start."""

from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses

from activities import refill
from onward import ToolContext, tool
from onward.local_services import RedisServer
from onward.own_history import Told, read_history

pytestmark = pytest.mark.replay


async def test_no_effect_starts_after_a_cancel_during_a_refill(
    bench: Bench, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refill ends in its own way as the cancel arrives, and swallows it."""
    runs, acted = list[Run](), list[str]()

    async def and_cancel(*args: Any, **options: Any) -> Told:
        await runs[0].handle.signal("cancel")
        return await read_history(*args, **options)

    async with connected(own_redis.url) as redis:
        wiping = connected(own_redis.url)

        @tool(effect="keyed")
        async def act(ctx: ToolContext) -> None:
            """Act; the first one loses the ledger."""
            acted.append(ctx.call)
            async with wiping:
                await wiping.flushall()  # pyright: ignore[reportUnknownMemberType]

        bench.redis = redis
        monkeypatch.setattr(refill, "read_history", and_cancel)
        async with bench.worker(app_of(act)):
            runs.append(await bench.start(uses(("act", {}), ("act", {}), delay_s=0.5), says()))
            result = await runs[0].ended()
    assert (result.outcome, acted) == ("cancelled", ["1.1"])
    await runs[0].replay()
