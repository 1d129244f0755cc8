"""A call that a person let try again: the request before it may still land."""

import asyncio

import httpx2
import pytest
from agent_runs import Bench, app_of, connected, says, uses
from people import say, say_in_time, waiting

from onward import Rejected, tool
from onward.local_services import RedisServer
from onward.testing import wait_until


@pytest.mark.crash
async def test_a_refused_retry_is_not_told_as_failed_without_redis(
    bench: Bench, own_redis: RedisServer
) -> None:
    """A refusal proves nothing of the first request, also where Redis cannot be asked."""
    loop, tries = asyncio.get_running_loop(), list[str]()

    @tool(moves_money=True, timeout_s=2)
    async def pay_out(to: str) -> str:
        """Pay out: no answer at first, then a refusal while Redis is away."""
        tries.append(to)
        if len(tries) == 1:
            raise httpx2.ReadTimeout("no answer")
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(own_redis.kill(), loop))
        raise Rejected("no")

    bench.takeover_s = 1.0
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(pay_out)):
            run = await bench.start(uses(("pay_out", {"to": "first"})), says())
            await waiting(run)
            await say_in_time(run, "1.1", "retry")
            await wait_until(lambda: len(tries) == 2, 20, what="the second try")
            (again,) = await waiting(run)
            await own_redis.start()
            assert again.why.startswith("refused")
            await say(run, "resolve", "1.1", outcome="done")
            assert (await run.ended()).in_doubt == ()
