"""A call in doubt waits for a person where its tool is serious; the run goes on from their word."""

import httpx2
import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from people import refused, say, say_in_time, waiting
from temporalio.client import WorkflowExecutionStatus

from onward import tool
from onward.local_services import RedisServer
from onward.testing import wait_until

pytestmark = pytest.mark.replay
SHORT_S = 0.5
"""A tool's time limit: with the bench's takeover it makes the quarantine."""


class Payout:
    """A payment without any help from the other side; `fails` makes the next ones uncertain."""

    def __init__(self, fails: int = 1) -> None:
        self.sent, self.fails = list[str](), fails

        @tool(moves_money=True, timeout_s=SHORT_S)
        async def pay_out(to: str) -> str:
            """Pay out."""
            self.sent.append(to)
            if len(self.sent) <= self.fails:
                raise httpx2.ReadTimeout("no answer")
            return f"paid {to}"

        self.tool = pay_out


async def in_doubt(bench: Bench, *then: str) -> Run:
    calls = [("pay_out", {"to": name}) for name in ("first", *then)]
    return await bench.start(uses(*calls), says())


async def test_a_person_says_that_it_was_done(bench: Bench) -> None:
    """The run waits, visible to who looks; `done` goes to Claude with the person's words."""
    payout = Payout()
    async with bench.worker(app_of(payout.tool)):
        run = await in_doubt(bench)
        (call,) = await waiting(run)
        assert (call.call, call.kind, call.tool, call.summary) == (
            "1.1",
            "doubt",
            "pay_out",
            "to=first",
        )
        assert "ReadTimeout" in call.why
        settled = await say(run, "resolve", "1.1", outcome="done", view=call.view, note="seen it")
        result = await run.ended()
    assert settled["verdict"] == "done"
    assert (result.outcome, result.in_doubt, payout.sent) == ("completed", (), ["first"])
    body = run.requests[-1].body
    assert "this call was done. seen it" in body
    assert '"is_error":true' not in body.replace(" ", "")
    record = (await bench.ledger(run).records("1.1")).records["1.1"]
    assert (record.st, record.by) == ("done", "operator@desk")
    await run.replay()


async def test_failed_and_retry_wait_for_the_quarantine(bench: Bench) -> None:
    """While a request may still land, "it did not happen" could prove false: it is refused."""
    bench.takeover_s = 1.5
    payout = Payout()
    async with bench.worker(app_of(payout.tool)):
        run = await in_doubt(bench)
        await waiting(run)
        why = await refused(run, "resolve", "1.1", outcome="retry")
        assert "may still land" in why
        answer = await say_in_time(run, "1.1", "retry")
        result = await run.ended()
    assert answer["verdict"] == "open"
    assert (result.in_doubt, payout.sent) == ((), ["first", "first"])
    assert "paid first" in run.requests[-1].body
    await run.replay()


async def test_a_person_says_that_it_was_not_done(bench: Bench) -> None:
    """`failed` is an error result, and the call is not tried again."""
    bench.takeover_s = 1.0
    payout = Payout()
    async with bench.worker(app_of(payout.tool)):
        run = await in_doubt(bench)
        await waiting(run)
        verdict = (await say_in_time(run, "1.1", "failed"))["verdict"]
        await run.ended()
    assert (verdict, payout.sent) == ("failed", ["first"])
    assert "was not done" in run.requests[-1].body


async def test_the_next_effect_waits_until_the_doubt_is_settled(bench: Bench) -> None:
    """Later effects of the reply may depend on the one in doubt."""
    payout = Payout()
    async with bench.worker(app_of(payout.tool)):
        run = await in_doubt(bench, "second")
        await waiting(run)
        assert payout.sent == ["first"]
        await say(run, "resolve", "1.1", outcome="done")
        await run.ended()
    assert payout.sent == ["first", "second"]


async def test_what_a_person_says_of_something_else_is_refused(bench: Bench) -> None:
    """No such call, no approval asked, another doubt than they saw: nothing changes."""
    payout = Payout()
    async with bench.worker(app_of(payout.tool)):
        run = await in_doubt(bench)
        await waiting(run)
        assert "does not wait" in await refused(run, "resolve", "7.1", outcome="done")
        assert "1.1 (doubt)" in await refused(run, "resolve", "7.1", outcome="done")
        assert "resolve it" in await refused(run, "approve", "1.1")
        assert "not what you saw" in await refused(
            run, "resolve", "1.1", outcome="done", view="12345"
        )
        assert await refused(run, "resolve", "1.1", outcome="perhaps")
        assert len(await waiting(run)) == 1
        await say(run, "resolve", "1.1", outcome="done")
        await run.ended()


async def test_the_truth_that_came_late_stands(bench: Bench) -> None:
    """A person says failed, but the late attempt had recorded its result: that is the answer."""
    payout = Payout()
    async with bench.worker(app_of(payout.tool)):
        run = await in_doubt(bench)
        await waiting(run)
        ledger = bench.ledger(run)
        record = (await ledger.records("1.1")).records["1.1"]
        late = '{"status":"done","content":"\\"paid late\\""}'
        await ledger.complete(
            "1.1", fp=record.fp, cls="at_most_once", token=record.own, result=late
        )
        settled = await say(run, "resolve", "1.1", outcome="failed")
        await run.ended()
    assert settled["verdict"] == "done"
    assert "paid late" in run.requests[-1].body


async def test_a_doubt_outlives_the_ledger(bench: Bench, own_redis: RedisServer) -> None:
    """With Redis wiped while a person is asked, their word is recorded all the same."""
    payout = Payout()
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(payout.tool)):
            run = await in_doubt(bench)
            await waiting(run)
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            settled = await say(run, "resolve", "1.1", outcome="done", note="by phone")
            result = await run.ended()
    assert settled["verdict"] == "done"
    assert (result.outcome, payout.sent) == ("completed", ["first"])
    assert "by phone" in run.requests[-1].body


async def test_a_doubt_that_began_anew_is_settled_too(bench: Bench, own_redis: RedisServer) -> None:
    """After a wipe a late attempt recorded a doubt of its own, which history does not know."""
    payout = Payout()
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(payout.tool)):
            run = await in_doubt(bench)
            await waiting(run)
            ledger = bench.ledger(run)
            fp = (await ledger.records("1.1")).records["1.1"].fp
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            await ledger.doubt("1.1", fp=fp, cls="at_most_once", token="late", why="lost")
            settled = await say(run, "resolve", "1.1", outcome="done")
            result = await run.ended()
    assert (settled["verdict"], result.outcome, payout.sent) == ("done", "completed", ["first"])


async def test_settled_doubts_come_back_from_history(bench: Bench, own_redis: RedisServer) -> None:
    """After a wipe the transcript is rebuilt with the bytes of what the person had said."""

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    payout = Payout()
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(payout.tool, look)):
            steps = (uses(("pay_out", {"to": "first"})), uses(("look", {}), delay_s=1), says())
            run = await bench.start(*steps)
            await waiting(run)
            await say(run, "resolve", "1.1", outcome="done", note="by phone")
            await wait_until(lambda: len(run.requests) >= 2, 20, what="step 2")
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            await run.ended()
    assert "by phone" in run.requests[-1].body


async def test_a_cancel_ends_the_waiting_and_names_the_doubt(bench: Bench) -> None:
    """Nobody must settle a doubt to get rid of a run."""
    payout = Payout()
    async with bench.worker(app_of(payout.tool)):
        run = await in_doubt(bench)
        await waiting(run)
        await run.handle.signal("cancel")
        result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("cancelled", ("1.1",))
    status = (await run.handle.describe()).status
    assert status == WorkflowExecutionStatus.COMPLETED


async def test_the_tool_says_who_settles(bench: Bench) -> None:
    """`in_doubt="model"` outweighs moves_money: Claude is told, and nobody waits."""

    @tool(moves_money=True, in_doubt="model")
    async def pay_out() -> str:
        """Pay out."""
        raise httpx2.ReadTimeout("no answer")

    run = await bench.run(app_of(pay_out), uses(("pay_out", {})), says())
    assert run.result is not None
    assert run.result.in_doubt == ("1.1",)
    assert "OUTCOME UNKNOWN" in run.requests[-1].body
