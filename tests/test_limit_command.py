"""A run's limits as a person sees and changes them on the command line."""

from datetime import timedelta

import pytest
from agent_double import Cli
from agent_runs import Bench, app_of, says, uses
from people import waiting

from onward import tool
from onward.testing import wait_until


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


async def test_a_run_at_a_limit_says_what_to_type_and_that_works(cli: Cli, bench: Bench) -> None:
    """It is among what waits, with its limit and the command that raises it; then it goes on."""
    async with bench.worker(app_of(look, at_limit="wait"), search_attributes=True):
        run = await bench.start(uses(("look", {})), says(), max_steps=1)
        await waiting(run)
        status = (await cli("status", run.name)).out
        assert "waiting (limit)" in status
        assert "1 of 1 step, $0.0" in status
        met = "it has met a limit (limit_steps): 1 of 1 allowed steps were done"
        assert f"{met}. Raise it with `onward limit {run.name} --max-steps N`" in status

        async def listed() -> bool:
            return f"{run.name}\tlimit\tlimit\t" in (await cli("list", "--waiting")).out

        await wait_until(listed, 20, what="the run among those that wait")
        assert (await cli("result", run.name, "--wait")).code == 8
        other = await cli("approve", run.name, "limit")
        assert (other.code, "`limit` raises it" in other.err) == (2, True)

        shown = await cli("limit", run.name)
        assert "max_steps\t1 of 1 step\n" in shown.out
        raised = await cli("limit", run.name, "--max-steps", "5", "--max-minutes", "240", "--json")
        assert raised.json["limits"]["max_steps"] == {"used": 1, "limit": 5, "met": False}
        assert raised.json["limits"]["max_wall_time"]["limit"] == 14_400
        assert (await cli("result", run.name, "--wait")).code == 0
    late = await cli("limit", run.name, "--max-steps", "9")
    assert (late.code, "has ended (completed)" in late.err) == (2, True)
    assert f"`onward fork {run.name}`" in late.err


async def test_a_limit_below_what_is_used_is_taken_and_said(cli: Cli, bench: Bench) -> None:
    """The person is told that the run stops; what is not given stays as it is."""
    async with bench.worker(app_of(look)):
        run = await bench.start(*[uses(("look", {}), delay_s=0.3)] * 30, max_steps=30)
        await wait_until(lambda: len(run.requests) > 2, 30, what="the third request")
        ran = await cli("limit", run.name, "--max-cost-usd", "0.0000001")
        assert ran.code == 0
        assert "at most 30 steps, $0.0000001, 20,000,000 tokens (4,000,000 of output)" in ran.err
        assert "of $0.0000001 are used already, so Claude is not asked again" in ran.err
        assert (await run.ended()).outcome == "limit_cost"


async def test_nothing_is_changed_without_a_worker_that_hears_it(
    cli: Cli, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would hear it: exit 3 at once instead of waiting; an unknown run is exit 4."""
    monkeypatch.setattr("onward.reports.QUERY_TIMEOUT", timedelta(seconds=0.5))
    run = await bench.start(says())
    ran = await cli("limit", run.name, "--max-steps", "9")
    assert (ran.code, "Start `onward-worker`" in ran.err) == (3, True)
    shown = await cli("limit", run.name)
    assert (shown.code, "has not begun, so its limits are not known yet" in shown.err) == (0, True)
    assert (await cli("limit", "no-such-run", "--max-steps", "9")).code == 4
    await run.handle.terminate()


async def test_a_start_that_cannot_be_bounded_in_money_says_the_way_out(
    cli: Cli, bench: Bench
) -> None:
    """A model of unknown price is refused at once, exit 1; typed as said, the run begins."""
    async with bench.worker(app_of(look)):
        start = ("start", "Go.", "--agent", "tester", "--model", "claude-nobody-1")
        refused = await cli(*start)
        assert (refused.code, "the run failed at once: the price of" in refused.err) == (1, True)
        assert "--max-cost-usd none" in refused.err
        begun = await cli(*start, "--max-cost-usd", "none", "--max-tokens", "1000", "--wait")
        assert (begun.code, begun.err.count("limit_tokens")) == (6, 1)
    assert not bench.api.journal
