"""A cancel: what it stops, and what it must not lose."""

import asyncio
import json
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from agent_double import Cli
from agent_runs import Bench, app_of, says, uses
from cancel_trial import end_of
from redis.exceptions import ConnectionError as RedisAway
from temporalio.client import WorkflowFailureError

from onward import NotSent, tool
from onward.ledger import Ledger
from onward.testing import wait_until
from onward.testing.messages_api import Fault


@pytest.mark.parametrize("by", ["signal", "server"])
async def test_no_effect_starts_after_a_cancel(bench: Bench, by: str) -> None:
    """The call that runs comes to its end; the next one of the same reply does not begin."""
    ran: list[str] = []

    @tool(effect="keyed")
    async def act(x: str) -> str:
        """Act."""
        ran.append(x)
        await asyncio.sleep(1.5)
        return "done"

    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {"x": "a"}), ("act", {"x": "b"})), says())
        await wait_until(lambda: ran, 20, what="the first effect")
        await (run.handle.signal("cancel") if by == "signal" else run.handle.cancel())
        with pytest.raises(WorkflowFailureError) if by == "server" else nullcontext():
            await run.ended()
    assert (ran, await run.last_activity_result()) == (["a"], "cancelled")


async def test_a_cancel_after_the_effect_loses_no_result(bench: Bench) -> None:
    """While a result is made fit for Claude the effect is over: it is recorded, not in doubt."""
    ran: list[bool] = []

    class Slow:
        def __repr__(self) -> str:
            time.sleep(1.5)
            return "slow"

    @tool
    async def act() -> Any:
        """Act."""
        ran.append(True)
        return Slow()

    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), says())
        await wait_until(lambda: ran, 20, what="the effect")
        await asyncio.sleep(0.2)
        await run.handle.signal("cancel")
        result = await run.ended()
    recorded = (await bench.ledger(run).records("1.1")).records["1.1"]
    assert (result.outcome, result.in_doubt, recorded.st) == ("cancelled", (), "done")


async def test_a_cancel_beside_a_result_forgets_no_doubt(bench: Bench) -> None:
    """Both reach the workflow in one task, and the SDK drops the result: the run tells it still."""
    began, asked = threading.Event(), threading.Event()

    @tool
    def act() -> None:
        """Act, and lose the answer."""
        began.set()
        asked.wait(20)
        raise httpx2.ReadTimeout("no answer")

    drains: Any = {"graceful_shutdown_timeout": timedelta(seconds=20)}
    async with bench.worker(app_of(act), **drains) as worker:
        run = await bench.start(uses(("act", {})), says())
        await wait_until(began.is_set, 20, what="the call")
        stopping = asyncio.create_task(worker.shutdown())  # it takes no workflow task any more
        await asyncio.sleep(0)
        await run.handle.cancel()
        asked.set()
        await stopping
    async with bench.worker(app_of(act)):
        result = await end_of(run)
    assert (result.outcome, result.in_doubt) == ("cancelled", ("1.1",))


@pytest.mark.parametrize("by", ["signal", "server"])
async def test_a_call_that_never_got_through_is_not_in_doubt(
    bench: Bench, cli: Cli, by: str
) -> None:
    """Cancelled between its tries, it can never run any more: nobody need look whether it did."""
    tried: list[bool] = []

    @tool
    async def act() -> None:
        """Reach nobody."""
        tried.append(True)
        raise NotSent("nobody is there")

    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), says())
        await wait_until(lambda: len(tried) > 1, 20, what="two tries")
        await (run.handle.signal("cancel") if by == "signal" else run.handle.cancel())
        result = await end_of(run)
    assert (result.outcome, result.in_doubt) == ("cancelled", ())
    audit = (await cli("audit", run.name, "--verify", "--json")).json
    assert [call["outcome"] for call in audit["effects"]] == ["not run"]
    assert audit["differences"] == []


async def test_a_record_that_nobody_here_can_read_keeps_no_run_from_its_end(bench: Bench) -> None:
    """A newer release wrote it, and may know: the call is in doubt, and nothing is overwritten."""

    @tool
    async def act() -> None:
        """Act."""

    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {}), delay_s=1), says())
        await wait_until(lambda: run.requests, 20, what="the request")
        newer = json.dumps({"v": 99, "st": "flying"})
        await bench.redis.hset(bench.ledger(run).key, "s:1.1", newer)
        await wait_until(run.failing_activity, 20, what="an attempt that cannot read it")
        await run.handle.signal("cancel")
        result = await run.ended()
    kept = await bench.redis.hget(bench.ledger(run).key, "s:1.1")
    assert (result.outcome, result.in_doubt) == ("cancelled", ("1.1",))
    assert kept == newer.encode()


async def test_a_cancel_between_attempts_counts_what_was_sent(bench: Bench) -> None:
    """No attempt is there to say what the step cost: the ledger's word counts."""
    fault = Fault(status=529, retry_after=30)
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[fault]))
        await wait_until(lambda: run.requests, 20, what="the request")
        await asyncio.sleep(0.5)
        await run.handle.signal("cancel")
        result = await run.ended()
        assert (await run.spend()).requests == 1
    assert (result.outcome, result.spend.requests) == ("cancelled", 1)


async def test_a_cancel_that_comes_too_late_changes_no_outcome(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that has ended and only closes its records stays completed, with its result."""
    closing: list[bool] = []

    async def slowly(_self: Ledger, _ttl_ms: int) -> None:
        closing.append(True)
        await asyncio.sleep(1.5)

    monkeypatch.setattr(Ledger, "end", slowly)
    async with bench.worker(app_of()):
        run = await bench.start(says())
        await wait_until(lambda: closing, 20, what="the last activity")
        await run.handle.cancel()
        result = await run.ended()
    assert (result.outcome, result.text) == ("completed", "Done.")


async def test_a_cancel_that_comes_first_waits_for_no_redis(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled before its first task, a run ends although its ledger cannot be used."""

    async def away(*_: Any, **__: Any) -> None:
        raise RedisAway("away")

    monkeypatch.setattr(Ledger, "begin", away)
    run = await bench.start(says())
    await run.handle.signal("cancel")
    async with bench.worker(app_of()):
        assert (await run.ended()).outcome == "cancelled"


@pytest.mark.parametrize("payload", ["enough of that", 7, ["x"], {"reason": 5}], ids=repr)
async def test_a_cancel_with_any_payload_cancels(bench: Bench, payload: Any) -> None:
    """Temporal drops a signal whose payload has another type than declared, and tells nobody."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[Fault(hold_s=60)]))
        await wait_until(lambda: run.requests, 20, what="the request")
        await run.handle.signal("cancel", payload)
        result = await run.ended()
    assert result.outcome == "cancelled"
    assert payload != "enough of that" or payload in result.detail


async def test_a_reason_given_to_temporal_is_the_runs(bench: Bench) -> None:
    """Whoever cancels by Temporal's own call may say why; the result tells it."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[Fault(hold_s=60)]))
        await wait_until(lambda: run.requests, 20, what="the request")
        await run.handle.cancel(reason="wrong list")
        assert (await end_of(run)).detail == "cancelled: wrong list"
    await run.replay()
