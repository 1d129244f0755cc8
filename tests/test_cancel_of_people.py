"""A cancel that comes while a person is needed: the run ends, and what it knows is kept."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from agent_runs import Bench, Run, app_of, says, uses
from people import say, waiting
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

from onward import tool
from onward.ledger import Ledger, Resolved
from onward.testing import wait_until

pytestmark = pytest.mark.replay


async def by_signal(run: Run) -> None:
    await run.handle.signal("cancel")


async def by_server(run: Run) -> None:
    await run.handle.cancel()


@pytest.mark.parametrize("cancel", [by_signal, by_server])
async def test_a_cancel_that_makes_a_doubt_waits_for_nobody(bench: Bench, cancel: Any) -> None:
    """The interrupted call's doubt would be a person's to settle; the run ends without them."""
    began = list[str]()

    @tool(moves_money=True)
    async def pay_out(to: str) -> None:
        """Pay out; never ends."""
        began.append(to)
        await asyncio.Event().wait()

    async with bench.worker(app_of(pay_out)):
        run = await bench.start(uses(("pay_out", {"to": "first"})), says())
        await wait_until(lambda: began, 20, what="the payment")
        await cancel(run)
        if cancel is by_signal:
            result = await asyncio.wait_for(run.ended(), 30)
            assert (result.outcome, result.in_doubt) == ("cancelled", ("1.1",))
        else:
            await canceled(run)
    assert await run.last_activity_result() == "cancelled"
    await run.replay()


async def canceled(run: Run) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(run.handle.result(), 30)
    assert isinstance(caught.value.cause, CancelledError)


@asynccontextmanager
async def being_settled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Run, asyncio.Event, "asyncio.Task[Any]"]]:
    """Make a run in which a person's word is being recorded until the event is set."""
    begun, go_on, record = asyncio.Event(), asyncio.Event(), Ledger.resolve

    async def slowly(*args: Any, **options: Any) -> Resolved:
        begun.set()
        await go_on.wait()
        return await record(*args, **options)

    @tool(moves_money=True)
    async def pay_out() -> None:
        """Pay out."""
        raise httpx2.ReadTimeout("no answer")

    monkeypatch.setattr(Ledger, "resolve", slowly)
    async with bench.worker(app_of(pay_out)):
        run = await bench.start(uses(("pay_out", {})), says())
        await waiting(run)
        saying = asyncio.create_task(say(run, "resolve", "1.1", outcome="done"))
        await asyncio.wait_for(begun.wait(), 20)
        await by_signal(run)
        await wait_until(lambda: not_waiting(run), 20, what="the end of the waiting")
        yield run, go_on, saying
        go_on.set()


async def not_waiting(run: Run) -> bool:
    return not (await run.status()).waiting


async def test_a_cancel_while_a_person_is_heard_hangs_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their word is recorded and they are told so, though nobody waits for it any more."""
    async with being_settled(bench, monkeypatch) as (run, go_on, saying):
        go_on.set()
        assert (await asyncio.wait_for(saying, 20))["verdict"] == "done"
        assert (await asyncio.wait_for(run.ended(), 20)).outcome == "cancelled"
    await run.replay()


async def test_a_second_cancel_while_a_person_is_heard_loses_no_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cancels in Temporal's UI because the first cancel takes long: it ends cleanly."""
    async with being_settled(bench, monkeypatch) as (run, _, saying):
        await by_server(run)
        await canceled(run)
        saying.cancel()
    assert await run.last_activity_result() == "cancelled"
