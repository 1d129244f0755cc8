"""A tool that blocks its thread, sync or async, loses no claim and stalls no other run."""

import asyncio
import time

import pytest
from agent_runs import Bench, app_of, says, uses

from onward import tool

BLOCKED_S = 30
BESIDE = 10


@pytest.mark.timeout(180)
async def test_a_blocking_tool_keeps_its_claim_and_delays_nobody(bench: Bench) -> None:
    """No second attempt and no doubt anywhere, and ten other runs end long before.

    `time.sleep(30)`, in a sync tool and in an async one.
    """
    began: list[str] = []

    @tool
    def blocks() -> str:
        """Block a thread."""
        began.append("sync")
        time.sleep(BLOCKED_S)
        return "slept"

    @tool
    async def blocks_its_loop() -> str:
        """Block an event loop."""
        began.append("async")
        time.sleep(BLOCKED_S)  # noqa: ASYNC251  (the fault that this test is about)
        return "slept"

    @tool
    async def quick() -> str:
        """Act at once."""
        return "acted"

    async with bench.worker(app_of(blocks, blocks_its_loop, quick)):
        blocked = [
            await bench.start(uses((name, {})), says()) for name in ("blocks", "blocks_its_loop")
        ]
        beside = [await bench.start(uses(("quick", {})), says()) for _ in range(BESIDE)]
        started = time.monotonic()
        await asyncio.gather(*(run.ended() for run in beside))
        assert time.monotonic() - started < BLOCKED_S / 2
        await asyncio.gather(*(run.ended() for run in blocked))
    for run in [*blocked, *beside]:
        assert run.result is not None
        assert (run.result.outcome, run.result.in_doubt) == ("completed", ())
        assert await run.most_attempts() == 1
    assert sorted(began) == ["async", "sync"]
