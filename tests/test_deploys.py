"""What a deploy can do to a run that goes on: another class, a newer record. Nothing is fired."""

import json

from agent_runs import Bench, Run, app_of, says, uses

from onward import tool
from onward.messages import EffectClass
from onward.testing import wait_until
from onward.tools import Tool


def payer(effect: EffectClass, paid: list[str]) -> Tool[[], str]:
    @tool(effect=effect)
    def pay() -> str:
        """Pay."""
        paid.append(effect)
        return "paid"

    return pay


async def held_up_by(run: Run, why: str) -> None:
    async def seen() -> bool:
        return why in await run.failing_activity()

    await wait_until(seen, 30, what=f"an activity that fails with {why!r}")


async def test_a_changed_class_waits_for_a_worker_that_has_the_old_one(bench: Bench) -> None:
    """What the class promised when the run began is kept, or the call is not made."""
    paid: list[str] = []
    async with bench.worker(app_of(payer("keyed", paid))):
        run = await bench.start(uses(("pay", {}), delay_s=2), says())
        await wait_until(lambda: run.requests, 20, what="the first request")
    async with bench.worker(app_of(payer("at_most_once", paid))):
        await held_up_by(run, "was 'keyed' when this run began, and is 'at_most_once'")
        assert paid == []
    async with bench.worker(app_of(payer("keyed", paid))):
        assert (await run.ended()).outcome == "completed"
    assert paid == ["keyed"]


async def test_a_record_of_a_newer_release_is_left_alone(bench: Bench) -> None:
    """Whoever cannot read a record must not guess: the run waits, and says for what."""
    paid: list[str] = []
    async with bench.worker(app_of(payer("at_most_once", paid))):
        run = await bench.start(uses(("pay", {}), delay_s=1), says())
        await wait_until(lambda: run.requests, 20, what="the first request")
        key = bench.ledger(run).key
        newer = json.dumps({"v": 99, "st": "flying"})
        await bench.redis.hset(key, "s:1.1", newer)
        await held_up_by(run, "A newer Onward may have written it")
        assert paid == []
        await bench.redis.hdel(key, "s:1.1")
        assert (await run.ended()).outcome == "completed"
    assert paid == ["at_most_once"]
