"""How fast another worker takes over, and what a deploy's SIGTERM does not do."""

import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable

import pytest
from agent_runs import says, uses
from crash_runs import CrashBench, Pair

from onward.testing import wait_until
from onward.testing.messages_api import Fault

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]

MOST_S = 2.5
TRIES = 10
BESIDE = 2
"""Tries at once, each with a pair of workers of its own: most of a try is waiting."""


Try = Callable[[CrashBench, Pair, int], Awaitable[float]]
"""Given its number, returns how many seconds the other worker took."""


async def _median(crash_bench: CrashBench, one: Try) -> float:
    async def lane(bench: CrashBench, first: int) -> list[float]:
        async with bench.pair() as pair:
            took = [await one(bench, pair, number) for number in range(first, TRIES, BESIDE)]
            await pair.all_ended()
        return took

    async with asyncio.TaskGroup() as group:
        lanes = [group.create_task(lane(crash_bench.another(), n)) for n in range(BESIDE)]
    return statistics.median(took for each in lanes for took in each.result())


async def test_the_next_request_comes_within_2_5_s_of_a_kill(crash_bench: CrashBench) -> None:
    """With a second worker polling, after SIGKILL in a Claude call: median of ten."""
    assert await _median(crash_bench, _request_after_kill) < MOST_S


async def _request_after_kill(bench: CrashBench, pair: Pair, _number: int) -> float:
    run = await bench.bench.start(says(faults=[Fault(hold_s=60)]))
    await wait_until(lambda: run.requests, 30, what="the first request")
    killed = await pair.kill_the_one_at_work(run)
    await wait_until(lambda: len(run.requests) > 1, 30, what="the next request")
    await pair.refill()
    return run.requests[1].t - killed


async def test_the_next_effect_or_verdict_comes_within_2_5_s_of_a_kill(
    crash_bench: CrashBench,
) -> None:
    """With a second worker polling, after SIGKILL in a tool: median of ten over both classes."""
    assert await _median(crash_bench, _end_after_kill) < MOST_S


async def _end_after_kill(bench: CrashBench, pair: Pair, number: int) -> float:
    name = ("refund", "pay_out")[number // BESIDE % 2]
    order = f"takeover-{uuid.uuid4().hex[:8]}"
    # The service sits on the first request for so long that the second must be what counts.
    run = await bench.bench.start(uses((name, {"order": order, "trouble": "delay_s=9,0"})), says())
    await wait_until(lambda: bench.arrivals(order), 30, what="the request of the tool")
    killed = await pair.kill_the_one_at_work(run)
    if name == "refund":
        await wait_until(lambda: bench.effects(order), 30, what="the effect")
        seen = time.time()
    else:
        await wait_until(lambda: len(run.requests) > 1, 30, what="the verdict")
        seen = run.requests[1].t
    await pair.refill()
    return seen - killed


async def test_sigterm_lets_the_call_finish(crash_bench: CrashBench) -> None:
    """A deploy is not a cancel: the request in flight ends, and is not paid twice."""
    async with crash_bench.worker() as first:
        run = await crash_bench.bench.start(says(delay_s=3))
        await wait_until(lambda: run.requests, 30, what="the request")
        async with crash_bench.worker():
            first.terminate()
            result = await run.ended()
            assert await first.wait(30) == 0
    assert (result.outcome, len(run.requests), result.spend.lost_requests) == ("completed", 1, 0)
