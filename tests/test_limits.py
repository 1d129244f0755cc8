"""Limits of a run: each ends it by its name; at most one request passes it, crashes included."""

import json
import threading
import time
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, says, uses
from crash_runs import CrashBench
from people import waiting
from pydantic import ValidationError

from onward import Limits, tool
from onward.messages import (
    Head,
    LimitChange,
    Opening,
    RunRequest,
    RunResult,
    Spend,
    Witness,
)
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step
from workflows.budget import over_limit
from workflows.state import RunState

PAID = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 2000,
}
"""Of a reply that costs two cents, at 10 dollars a million tokens."""


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


def paid(**fields: Any) -> Step:
    """Make a step that costs two cents and asks for a tool."""
    return uses(("look", {}), usage=PAID, **fields)


async def change(run: Run, **limits: Any) -> Limits:
    """Change limits as `onward limit` does."""
    handle: Any = run.handle
    done: Any = await handle.execute_update("limit", LimitChange(**limits), result_type=Limits)
    return Limits.model_validate(done)


def asked(run: Run) -> list[int]:
    """Return the `max_tokens` of each request."""
    return [json.loads(entry.body)["max_tokens"] for entry in run.requests]


# ---- each limit


@pytest.mark.parametrize(
    ("limits", "outcome", "requests"),
    [
        ({"max_steps": 2}, "limit_steps", 2),
        ({"max_cost_usd": "0.05"}, "limit_cost", 2),
        ({"max_cost_usd": "0.055"}, "limit_cost", 3),
        ({"max_tokens_total": 5000}, "limit_tokens", 1),
        ({"max_output_tokens": 5000}, "limit_tokens", 2),
        ({"max_output_tokens": 6000}, "limit_tokens", 3),
        ({"max_wall_time": 0.001}, "limit_time", 0),
    ],
)
async def test_a_limit_ends_the_run_by_its_name(
    bench: Bench, limits: dict[str, Any], outcome: str, requests: int
) -> None:
    """Nothing is asked beyond a limit: of the replies at two cents, at most one goes past it."""
    run = await bench.run(app_of(look), *[paid()] * 6, **limits)
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == (outcome, requests)
    assert run.result.detail


async def test_the_last_reply_is_no_longer_than_what_is_left(bench: Bench) -> None:
    """Near the limit Claude is allowed less, so that even the request that meets it passes little.

    One that is cut off there ends the run by that limit's name, with what Claude had said.
    """
    last = says("x" * 40_000, needs_tokens=5000)
    run = await bench.run(app_of(look), paid(), last, max_output_tokens=4000)
    assert run.result is not None
    assert asked(run) == [4000, 2000]
    assert (run.result.outcome, run.result.steps) == ("limit_tokens", 2)
    assert run.result.text.startswith("xxx")


async def test_a_run_whose_time_is_up_waits_for_no_retry(bench: Bench) -> None:
    """The API names a moment far beyond it: the run ends at its own, and sends nothing more."""
    busy = says(faults=[Fault(status=529, retry_after=3600)])
    run = await bench.run(app_of(look), busy, max_wall_time=2)
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("limit_time", 1)


@pytest.mark.field("A22")
async def test_the_same_failing_call_again_and_again_ends_the_run(bench: Bench) -> None:
    """A call that fails alike each time is run each time, and ends the run by its own name."""
    failed: list[str] = []

    @tool(effect="read")
    async def read_file(path: str) -> str:
        """Read."""
        failed.append(path)
        raise FileNotFoundError(path)

    step = uses(("read_file", {"path": "/nope"}))
    run = await bench.run(app_of(read_file), *[step] * 9)
    assert run.result is not None
    assert (run.result.outcome, len(run.requests), failed) == ("limit_repeats", 5, ["/nope"] * 5)


async def test_calls_that_fail_in_other_ways_are_no_repeats(bench: Bench) -> None:
    """A model that tries something else each time is bounded by its other limits alone."""
    steps = [uses(("absent", {"n": number})) for number in range(7)]
    run = await bench.run(app_of(look), *steps, says())
    assert run.result is not None
    assert (run.result.outcome, run.result.steps) == ("completed", 8)


@pytest.mark.parametrize("limit", [{"max_wall_time": float("inf")}, {"max_cost_usd": "NaN"}])
def test_no_limit_is_endless_but_the_one_in_money(limit: dict[str, Any]) -> None:
    """Whoever wants no limit in money says None; every other number ends a run."""
    assert Limits(max_cost_usd=None).max_cost_usd is None
    for kind in (Limits, LimitChange):
        with pytest.raises(ValidationError, match="finite"):
            kind(**limit)


def test_a_run_of_before_0_4_meets_no_limit_that_it_did_not_know() -> None:
    """Its replay must make the steps that it made, however much Claude wrote in them."""
    witness, head = Witness(nonce="", inc="", run_id=""), Head(step="0", digest="")
    opening = Opening(
        frozen="", effects={}, limits=Limits(), witness=witness, head=head, takeover_s=1, rules=3
    )
    state = RunState(RunRequest(prompt="", agent="tester"), (), opening=opening)
    state.spend = Spend(output_tokens=5_000_000)
    assert over_limit(state, 0) is None


# ---- crashes, continue-as-new, resets


@pytest.mark.field("E03")
@pytest.mark.crash
async def test_a_budget_holds_over_a_kill(crash_bench: CrashBench) -> None:
    """Five cents, two for each reply, SIGKILL after the second: no third call is paid for."""
    steps = [uses(("look_up", {"order": f"o-{number}"}), usage=PAID) for number in range(6)]
    async with crash_bench.worker(FP="f10:2:kill") as worker:
        run = await crash_bench.bench.start(*steps, max_cost_usd="0.05")
        await worker.killed()
    async with crash_bench.worker():
        result = await run.ended()
    assert (result.outcome, len(run.requests), result.steps) == ("limit_cost", 2, 2)
    assert str(result.spend.cost_usd) == "0.04"


@pytest.mark.field("E03")
async def test_lost_replies_are_paid_from_the_budget(bench: Bench) -> None:
    """A reply that is lost each time is asked for until the budget ends, not beyond."""
    usage = PAID | {"input_tokens": 5000}
    lost = paid(faults=[Fault(cut=True, after_events=4)], faults_forever=True)
    lost = lost.model_copy(update={"usage": usage})
    run = await bench.run(app_of(look), paid(), lost, max_cost_usd="0.05")
    assert run.result is not None
    assert (run.result.outcome, run.result.steps) == ("limit_cost", 1)
    assert (len(run.requests), run.result.spend.lost_requests) == (3, 2)


@pytest.mark.field("E03")
async def test_limits_hold_over_continue_as_new(bench: Bench) -> None:
    """What was spent is carried along, and so is a limit that was changed in mid-run."""
    bench.history_events = 12
    async with bench.worker(app_of(look)):
        run = await bench.start(*[paid(delay_s=0.2)] * 12)
        await wait_until(lambda: run.requests, 30, what="the first request")
        await change(run, max_steps=7)
        result = await run.ended()
    assert (result.outcome, len(run.requests)) == ("limit_steps", 7)
    assert len(await run.chain()) > 1


@pytest.mark.field("E03")
async def test_a_reset_pays_for_nothing_twice(bench: Bench) -> None:
    """A run that is reset after its limit meets it again, and sends no request more."""
    async with bench.worker(app_of(look)):
        run = await bench.start(*[paid()] * 6, max_cost_usd="0.05")
        assert (await run.ended()).outcome == "limit_cost"
        result = await (await run.reset_to_first_task()).ended()
    assert (result.outcome, len(run.requests)) == ("limit_cost", 2)


# ---- changed in mid-run


class Gate:
    """A tool that stays until it is let through."""

    def __init__(self) -> None:
        self.opened = threading.Event()

        @tool(effect="read")
        def look() -> str:
            """Look."""
            assert self.opened.wait(30)
            return "seen"

        self.tool = look


@pytest.mark.parametrize(
    ("at_first", "changed", "outcome", "requests"),
    [
        ({"max_steps": 2}, {"max_steps": 4}, "limit_steps", 4),
        ({"max_cost_usd": "0.03"}, {"max_cost_usd": "0.5"}, "completed", 6),
        ({}, {"max_steps": 1}, "limit_steps", 1),
        ({}, {"max_cost_usd": "0.01"}, "limit_cost", 1),
        ({}, {"max_wall_time": 0.001}, "limit_time", 1),
        ({"max_cost_usd": "0.03"}, {"unlimited_cost": True}, "completed", 6),
    ],
)
async def test_a_limit_is_raised_and_lowered_while_the_run_goes_on(
    bench: Bench, at_first: dict[str, Any], changed: dict[str, Any], outcome: str, requests: int
) -> None:
    """The next request keeps to the new limit; below what is spent already, there is none."""
    gate = Gate()
    async with bench.worker(app_of(gate.tool)):
        run = await bench.start(*[paid()] * 5, says(usage=PAID), **at_first)
        await wait_until(lambda: run.requests, 30, what="the first request")
        limits = await change(run, **changed)
        gate.opened.set()
        result = await run.ended()
    assert limits == LimitChange(**changed).of(LimitChange(**at_first).of(Limits()))
    assert (result.outcome, len(run.requests)) == (outcome, requests)
    await run.replay()


async def test_a_limit_that_is_raised_while_a_step_is_tried_again_holds_for_it(
    bench: Bench,
) -> None:
    """A run that would end at its old limit, which its step still knew, goes on instead."""
    busy = says(faults=[Fault(status=529, retry_after=3)])
    async with bench.worker(app_of(look)):
        run = await bench.start(busy, max_wall_time=2.5)
        await wait_until(lambda: run.requests, 30, what="the first request")
        await change(run, max_wall_time=60)
        result = await run.ended()
    assert (result.outcome, len(run.requests)) == ("completed", 2)
    await run.replay()


# ---- waiting at a limit


@pytest.mark.parametrize(
    ("limits", "raised", "requests"),
    [
        ({"max_steps": 2}, {"max_steps": 9}, 4),
        ({"max_cost_usd": "0.03"}, {"max_cost_usd": 1}, 4),
        # Met by the worker, which finds too little left for a third reply.
        ({"max_cost_usd": "0.05"}, {"max_cost_usd": 1}, 4),
        ({"max_output_tokens": 2000}, {"max_output_tokens": 50_000}, 4),
    ],
)
async def test_a_run_that_waits_at_a_limit_goes_on_when_it_is_raised(
    bench: Bench, limits: dict[str, Any], raised: dict[str, Any], requests: int
) -> None:
    """Nothing is lost at a limit: the same conversation goes on to its end."""
    async with bench.worker(app_of(look, at_limit="wait")):
        run = await bench.start(*[paid()] * 3, says(usage=PAID), **limits)
        (met,) = await waiting(run)
        assert (met.kind, met.call) == ("limit", "limit")
        await change(run, **raised)
        result = await run.ended()
    assert (result.outcome, len(run.requests), result.steps) == ("completed", requests, 4)
    await run.replay()


async def test_a_reply_that_a_limit_cut_off_is_gone_on_with_when_it_is_raised(bench: Bench) -> None:
    """What Claude had said is neither lost nor paid again: it is told to go on."""
    last = says("x" * 40_000, needs_tokens=5000, usage=PAID)
    async with bench.worker(app_of(look, at_limit="wait")):
        run = await bench.start(paid(), last, says("The end."), max_output_tokens=4000)
        await waiting(run)
        await change(run, max_output_tokens=50_000)
        result = await run.ended()
    assert (result.outcome, asked(run)) == ("completed", [4000, 2000, 16_000])
    assert result.text.startswith("xxx")
    assert result.text.endswith("The end.")


async def test_a_run_that_waits_at_a_limit_can_be_cancelled(bench: Bench) -> None:
    """It ends as cancelled, with what it has, and sends nothing more."""
    async with bench.worker(app_of(look, at_limit="wait")):
        run = await bench.start(*[paid()] * 3, max_steps=1)
        await waiting(run)
        await run.handle.signal("cancel")
        result = await run.ended()
    assert (result.outcome, len(run.requests)) == ("cancelled", 1)


async def test_waiting_at_a_limit_is_not_counted_as_time(bench: Bench) -> None:
    """A run that waited for a person for longer than its limit on time still has that time."""
    async with bench.worker(app_of(look, at_limit="wait")):
        run = await bench.start(paid(), says(), max_steps=1, max_wall_time=3.0)
        (met,) = await waiting(run)

        async def late() -> bool:
            return time.time() * 1000 - met.since_ms > 3000

        await wait_until(late, 30, what="more waiting than the limit on time allows")
        await change(run, max_steps=9)
        result: RunResult = await run.ended()
    assert result.outcome == "completed"


# ---- a model of unknown price


@pytest.mark.field("E03")
async def test_a_limit_in_money_is_refused_where_no_price_is_known(bench: Bench) -> None:
    """Never taken for unlimited: the run ends before it spends anything, and says the way out."""
    app = app_of(look)
    async with bench.worker(app):
        run = await bench.start(paid(), says(), model="claude-nobody-1")
        failed = await run.failed()
    assert (failed.outcome, len(run.requests)) == ("failed", 0)
    assert "the price of the model 'claude-nobody-1' is not known" in failed.detail
    assert "--max-cost-usd none" in failed.detail
    assert "20,000,000 tokens bound it" in failed.detail


@pytest.mark.field("E03")
async def test_a_reply_of_unknown_price_meets_the_limit_in_money(bench: Bench) -> None:
    """A gateway's own name for a model does not make a run free: one reply, and no request more."""
    answers = paid(fields={"model": "gateway-sonnet"})
    run = await bench.run(app_of(look), *[answers] * 3, max_cost_usd="0.05")
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("limit_cost", 1)
    assert "what gateway-sonnet costs is not known" in run.result.detail


async def test_without_a_limit_in_money_tokens_bound_a_model_of_unknown_price(
    bench: Bench,
) -> None:
    """The tokens are exact, and their limit holds; a limit in money cannot come later either."""
    gate = Gate()
    async with bench.worker(app_of(gate.tool)):
        run = await bench.start(
            *[paid()] * 6, model="claude-nobody-1", unlimited_cost=True, max_output_tokens=6000
        )
        await wait_until(lambda: run.requests, 30, what="the first request")
        with pytest.raises(Exception, match="update failed") as refused:
            await change(run, max_cost_usd=3)
        gate.opened.set()
        result = await run.ended()
    assert "the price of the run's model is not known" in str(refused.value.__cause__)
    assert (result.outcome, len(run.requests)) == ("limit_tokens", 3)
    assert result.spend.unpriced_requests == 3
