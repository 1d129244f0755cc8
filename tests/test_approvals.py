"""A tool that asks first: its call waits until a person approves or denies it."""

import json

import pytest
from agent_runs import Bench, app_of, says, uses
from people import refused, say, waiting

from onward import tool

pytestmark = pytest.mark.replay


class Shop:
    """A tool that asks from 50 up, and what it did."""

    def __init__(self) -> None:
        self.refunded: list[int] = []

        @tool(effect="keyed", ask=lambda call: call["cents"] > 50)
        async def refund(cents: int) -> str:
            """Refund."""
            self.refunded.append(cents)
            return f"refunded {cents}"

        self.tool = refund


def refunds(*cents: int) -> list[tuple[str, dict[str, int]]]:
    return [("refund", {"cents": amount}) for amount in cents]


async def test_people_decide_about_each_call(bench: Bench) -> None:
    """All that ask are shown at once; approved ones run in order, a denied one tells Claude why."""
    shop = Shop()
    async with bench.worker(app_of(shop.tool)):
        run = await bench.start(uses(*refunds(10, 60, 70)), says())
        second, third = await waiting(run, 2)
        assert (second.call, second.kind, third.call) == ("1.2", "approval", "1.3")
        status = await run.status()
        assert (status.state, status.step) == ("waiting", "1")
        assert second.why == "the tool asks a person first for such an input"
        await say(run, "deny", "1.3", why="too much", view=third.view)
        assert "approve it or deny it" in await refused(run, "resolve", "1.2", outcome="done")
        assert "not what you saw" in await refused(run, "approve", "1.2", view=third.view)
        await say(run, "approve", "1.2", view=second.view)
        assert "does not wait" in await refused(run, "approve", "1.2")
        result = await run.ended()
    assert (result.outcome, shop.refunded) == ("completed", [10, 60])
    results = json.loads(run.requests[-1].body)["messages"][-1]["content"]
    assert [block.get("is_error", False) for block in results] == [False, False, True]
    assert results[2]["content"] == "A person denied this call. too much"
    await run.replay()


async def test_a_cancel_while_people_are_asked_runs_nothing(bench: Bench) -> None:
    """The call never ran, so nothing is in doubt; nobody can approve it any more."""
    shop = Shop()
    async with bench.worker(app_of(shop.tool)):
        run = await bench.start(uses(*refunds(60)), says())
        await waiting(run)
        await run.handle.signal("cancel")
        result = await run.ended()
    assert (result.outcome, result.in_doubt, shop.refunded) == ("cancelled", (), [])


async def test_an_approval_survives_the_worker(bench: Bench) -> None:
    """Approved while no worker runs: the next one takes it from history."""
    shop = Shop()
    async with bench.worker(app_of(shop.tool)):
        run = await bench.start(uses(*refunds(60)), says())
        await waiting(run)
    async with bench.worker(app_of(shop.tool)):
        await waiting(run)
        await say(run, "approve", "1.1")
        await run.ended()
    assert shop.refunded == [60]


async def test_a_predicate_that_fails_asks(bench: Bench) -> None:
    """Whoever cannot tell whether to ask must not act alone."""

    @tool(effect="keyed", ask=lambda call: call["nothing"] > 0)
    async def act() -> str:
        """Act."""
        return "done"

    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), says())
        (call,) = await waiting(run)
        assert "KeyError" in call.why
        await say(run, "deny", "1.1")
        assert (await run.ended()).outcome == "completed"
