"""Servers that go away or forget, and settings that change: the run waits, and nothing repeats."""

import asyncio
import json
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from crash_runs import CrashBench
from test_field_conversation import results_in

from onward import Rejected, ToolContext, tool
from onward.ledger import Ledger
from onward.local_services import RedisServer, redis_server
from onward.messages import EffectClass
from onward.testing import wait_until
from onward.testing.messages_api import Fault
from onward.tools.workspace import prepare

pytestmark = pytest.mark.timeout(180)


@pytest.mark.crash
async def test_a_run_waits_for_its_redis(bench: Bench, own_redis: RedisServer) -> None:
    """The ledger's Redis is killed in mid-run and comes back: the run goes on, nothing repeats."""
    gate = asyncio.Event()
    acted: list[str] = []

    @tool(effect="keyed")
    async def act(ctx: ToolContext) -> str:
        """Act, when the test says so."""
        acted.append(ctx.call)
        if ctx.call == "2.1":
            loop.call_soon_threadsafe(gate.set)
        return "acted"

    loop = asyncio.get_running_loop()
    step = uses(("act", {}))
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(act)):
            run = await bench.start(step, step, step, step, says())
            await asyncio.wait_for(gate.wait(), 30)
            await own_redis.kill()
            await wait_until(run.failing_activity, 30, what="a failure that is shown")
            await own_redis.start()
            result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    assert sorted(acted) == ["1.1", "2.1", "3.1", "4.1"]


@pytest.mark.crash
@pytest.mark.parametrize(
    ("effect", "in_doubt"), [("keyed", ("1.1",)), ("at_most_once", ()), ("read", ())]
)
async def test_a_refusal_that_cannot_be_recorded(
    bench: Bench, own_redis: RedisServer, effect: EffectClass, in_doubt: tuple[str, ...]
) -> None:
    """Only Redis knows whether an earlier request may still land: it is not told as failed."""
    loop = asyncio.get_running_loop()

    @tool(effect=effect)
    async def act() -> str:
        """Be refused while Redis is away."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(own_redis.kill(), loop))
        raise Rejected("no")

    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(act)):
            run = await bench.start(uses(("act", {})), says())
            await wait_until(run.failing_activity, 30, what="Redis missed")
            await own_redis.start()
            result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", in_doubt)


@pytest.mark.parametrize("effect", ["keyed", "at_most_once"])
async def test_a_wipe_between_steps_loses_nothing(bench: Bench, effect: EffectClass) -> None:
    """FLUSHALL while Claude answers: the records are rebuilt from history; no doubt, no repeat."""
    acted: list[str] = []

    @tool(effect=effect)
    async def act(ctx: ToolContext) -> str:
        """Act."""
        acted.append(ctx.call)
        return f"acted {ctx.call}"

    async with redis_server(None) as server, connected(server.url) as redis:
        bench.redis = redis
        steps = [uses(("act", {}), delay_s=0.5) for _ in range(4)]
        async with bench.worker(app_of(act)):
            run = await bench.start(*steps, says(delay_s=0.5))
            for number in range(1, 5):
                await wait_until(partial(_asked, run, number), 30, what="a request")
                await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            result = await run.ended()
    assert (result.outcome, result.in_doubt, result.steps) == ("completed", (), 5)
    assert acted == ["1.1", "2.1", "3.1", "4.1"]
    assert "refill" in await run.activities()


def _asked(run: Run, number: int) -> bool:
    return len(run.requests) > number


@pytest.mark.crash
async def test_a_changed_deployment_changes_no_key(crash_bench: CrashBench) -> None:
    """ONWARD_DEPLOYMENT differs between two attempts of a call: the same key, one effect."""
    order = f"deploy-{uuid.uuid4().hex[:8]}"
    async with crash_bench.worker(FP="f7:1:kill", ONWARD_DEPLOYMENT="blue") as worker:
        run = await crash_bench.bench.start(uses(("refund", {"order": order})), says())
        await worker.killed()
    async with crash_bench.worker(ONWARD_DEPLOYMENT="green"):
        await run.ended()
    keys = {seen.key for seen in crash_bench.payments.requests() if order in seen.body}
    assert (len(keys), crash_bench.effects(order), crash_bench.arrivals(order)) == (1, 1, 2)


async def test_the_run_finishes_where_its_workspace_is(bench: Bench, tmp_path: Path) -> None:
    """Two workers, one has the folder: the other hands the call back and the run finishes."""
    workspace = prepare(tmp_path)

    @tool(effect="keyed")
    async def touch(ctx: ToolContext) -> str:
        """Make a file."""
        assert ctx.workspace is not None
        (ctx.workspace / "made").touch()
        return "made"

    app = app_of(touch)
    elsewhere = workspace.model_copy(update={"path": str(tmp_path / "absent")})
    async with bench.worker(app):
        waits = await bench.start(uses(("touch", {})), says(), workspace=elsewhere)
        await wait_until(waits.failing_activity, 30, what="the call handed back")
        assert "absent" in await waits.failing_activity()
        await waits.handle.terminate("nobody has that folder")
        run = await bench.start(uses(("touch", {})), says(), workspace=workspace)
        result = await run.ended()
    assert (result.outcome, (tmp_path / "made").exists()) == ("completed", True)


@pytest.mark.replay
async def test_a_reset_repeats_no_effect(bench: Bench) -> None:
    """`temporal workflow reset` to before a call: the ledger gives back what was recorded."""
    acted: list[str] = []

    @tool
    async def act(ctx: ToolContext) -> str:
        """Act."""
        acted.append(ctx.call)
        return "acted"

    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), uses(("act", {})), says())
        await run.ended()
        asked = len(run.requests)
        again = await run.reset_to_first_task()
        result = await again.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    assert acted == ["1.1", "2.1"]
    assert len(run.requests) == asked
    # Given none itself, the reset run takes the witness of the one it was made from.
    assert await again.witness() == await run.witness() != ""


async def test_a_refill_beats_as_its_run_expects(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy with a longer ONWARD_TAKEOVER_S: a slow refill of an older run is not timed out."""
    restore = Ledger.restore

    async def slowly(ledger: Ledger, *told: Any) -> None:
        await asyncio.sleep(3)
        await restore(ledger, *told)

    monkeypatch.setattr(Ledger, "restore", slowly)
    async with bench.worker(app_of()):
        run = await bench.start(says(delay_s=1, faults=[Fault(status=529, retry_after=2)]))
        await wait_until(lambda: run.requests, 20, what="the request")
        await asyncio.sleep(0.3)
    await bench.redis.delete(bench.ledger(run).key)
    async with replace(bench, takeover_s=60).worker(app_of()):
        await run.ended()
    assert await run.most_attempts() == 2


async def test_a_read_that_was_interrupted_long_ago_is_read_again(bench: Bench) -> None:
    """No worker for eleven minutes in the middle of a read: it has no time limit to be past."""
    started: list[bool] = []

    @tool(effect="read")
    async def look() -> str:
        """Look; the first time, for so long that the worker is gone."""
        started.append(True)
        await asyncio.sleep(60 if len(started) == 1 else 0)
        return "seen"

    async with bench.worker(app_of(look)):
        run = await bench.start(uses(("look", {})), says())
        await wait_until(lambda: started, 20, what="the read")
    redis: Any = bench.redis
    key = bench.ledger(run).key
    record = json.loads(await redis.hget(key, "s:1.1"))
    record["first"] -= 11 * 60 * 1000
    await redis.hset(key, "s:1.1", json.dumps(record))
    async with bench.worker(app_of(look)):
        await run.ended()
    assert (len(started), results_in(run)[0]["content"]) == (2, "seen")
