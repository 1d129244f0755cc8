"""What `spend` says: the same whoever tells it, whole after a reset, and of many runs."""

import json
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import forked
import pytest
from agent_double import Cli, Ran
from agent_runs import MODEL, Bench, Run, app_of, says, uses
from forked import fork
from people import say, waiting
from test_other_branches import OTHER_FP, rewrite

from onward import Agent, App, tool
from onward.errors import UsageError
from onward.messages import ClaudeReply, Head, Spend, Tally, Witness
from onward.spending.since import moment
from onward.spending.tables import OTHER, facts, with_other
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step

EVERY_STEP = 12
"""Events after which a run has done one step, and continues as new."""


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect="keyed", ask="always")
async def pay() -> str:
    """Pay, when a person says so."""
    return "paid"


def spent(ran: Ran) -> Spend:
    """What the command says in JSON."""
    assert ran.code == 0, ran.err
    fields = {name: value for name, value in ran.json.items() if name in Spend.model_fields}
    return Spend.model_validate(fields)


def by_step(ran: Ran) -> dict[str, Spend]:
    """What the command says of each step."""
    return {step: Spend.model_validate(row) for step, row in ran.json["by_step"].items()}


async def three_steps(bench: Bench) -> Run:
    run = await bench.start(uses(("look", {})), uses(("look", {})), says())
    await run.ended()
    return run


async def test_worker_history_and_chain_tell_the_same(bench: Bench, cli: Cli) -> None:
    """Alive, without a worker, offline and ended: one sum, and the steps of all workflow runs."""
    bench.history_events = EVERY_STEP
    async with bench.worker(app_of(look, pay)):
        run = await bench.start(uses(("look", {})), uses(("look", {})), uses(("pay", {})), says())
        await waiting(run)
        asked = await run.spend()
        live = await cli("spend", run.name, "--json")
        offline = await cli("spend", run.name, "--json", "--offline")
    assert len(await run.chain()) > 1
    alone = await cli("spend", run.name, "--json")
    assert spent(live) == spent(offline) == spent(alone) == asked
    assert set(live.json) == set(Spend.model_fields)
    assert [("at least" in ran.err) for ran in (live, offline, alone)] == [False, True, True]
    async with bench.worker(app_of(look, pay)):
        await say(run, "approve", "3.1")
        result = await run.ended()
    ended = await cli("spend", run.name, "--json", "--by", "step")
    assert spent(ended) == result.spend
    assert [*by_step(ended)] == ["1", "2", "3", "4"]
    assert sum(by_step(ended).values(), Spend()) == result.spend
    assert result.spend.models == {MODEL: result.spend.total}


async def test_a_fork_pays_for_its_own_steps(bench: Bench, cli: Cli) -> None:
    """What was copied was paid by the run that it is a copy of."""
    async with bench.worker(app_of(look)):
        run = await three_steps(bench)
        copy = await fork(cli, run, "--step", "2")
        result = await copy.ended()
        ran = await cli("spend", copy.name, "--json", "--by", "step")
    assert (spent(ran), [*by_step(ran)]) == (result.spend, ["3"])


async def test_a_step_that_was_given_up_has_its_row(bench: Bench, cli: Cli) -> None:
    """A run that failed shows in which step its money went."""
    async with bench.worker(app_of(look)):
        run = await bench.start(uses(("look", {})), says(faults=[Fault(status=400)]))
        result = await run.failed()
    ran = await cli("spend", run.name, "--json", "--by", "step")
    assert {step: row.requests for step, row in by_step(ran).items()} == {"1": 1, "2": 1}
    assert sum(by_step(ran).values(), Spend()) == result.spend == spent(ran)


async def test_a_refusal_before_any_output_costs_nothing(bench: Bench) -> None:
    """The API does not bill it, though it reports tokens."""
    refusal = Step(stop_reason="refusal", usage={"input_tokens": 18, "output_tokens": 5})
    run = await bench.run(app_of(), refusal)
    assert run.result is not None
    assert (run.result.outcome, run.result.spend.total) == ("refused", Tally(requests=1))


async def test_a_model_of_unknown_price_is_named(bench: Bench, cli: Cli) -> None:
    """The model that served is the one that is paid: its tokens are exact, its cost is unknown."""
    run = await bench.run(app_of(), says(model="claude-atlas-9", usage={"output_tokens": 7}))
    ran = await cli("spend", run.name)
    assert "cost unknown (1 request of unknown price)" in ran.out
    assert "claude-atlas-9" in ran.out
    row = (await cli("spend", run.name, "--by", "model")).out.split("\t")
    assert (row[0], row[5]) == ("claude-atlas-9", "7")


# ---- what was recorded is not paid again


async def test_what_a_reset_finds_in_the_record_is_saved(bench: Bench, cli: Cli) -> None:
    """Each reply counts once, and what it would have cost again is shown apart."""
    async with bench.worker(app_of(look)):
        run = await three_steps(bench)
        first = spent(await cli("spend", run.name, "--json"))
        await (await run.reset_to_first_task()).ended()
    ran = await cli("spend", run.name, "--json")
    again = spent(ran)
    assert len(run.requests) == again.requests == again.saved.requests == 3
    assert again.saved.cost_usd == again.cost_usd == first.cost_usd > 0
    assert again.model_copy(update={"saved": Tally()}) == first
    assert "what all its branches cost is counted" in ran.err


# ---- other branches


async def test_a_reset_forgets_no_money(bench: Bench, cli: Cli) -> None:
    """The new branch is cancelled before it asks anything: what the first one cost stays."""
    async with bench.worker(app_of(look)):
        run = await three_steps(bench)
    first = spent(await cli("spend", run.name, "--json"))
    branch = await run.reset_to_task(1)
    await branch.handle.signal("cancel")
    async with bench.worker(app_of(look)):
        result = await branch.ended()
    ran = await cli("spend", run.name, "--json")
    assert (result.outcome, result.spend.requests) == ("cancelled", 0)
    assert spent(ran) == first
    assert "what all its branches cost is counted" in ran.err
    alone = await cli("spend", run.name, "--json", "--offline")
    assert (spent(alone).requests, "only Redis knows" in alone.err) == (0, True)


async def test_branches_that_differ_are_both_counted(bench: Bench, cli: Cli) -> None:
    """Step 1 of the new branch finds another reply at its place, and is asked anew."""
    async with bench.worker(app_of(look)):
        run = await three_steps(bench)
        await rewrite(bench, run, "1", fp=OTHER_FP)
        result = await (await run.reset_to_first_task()).ended()
    ran = await cli("spend", run.name, "--json", "--by", "step")
    assert len(run.requests) > 3
    assert spent(ran).requests == len(run.requests)
    assert [*by_step(ran)][:2] == ["1", "1.r1"]
    assert sum(by_step(ran).values(), Spend()) == spent(ran)
    assert result.spend.requests < len(run.requests)


async def test_after_a_loss_of_redis_the_sum_is_a_lower_bound(bench: Bench, cli: Cli) -> None:
    """What other branches cost was known there alone: the command says that there may be more."""
    async with bench.worker(app_of(look)):
        run = await three_steps(bench)
        await bench.redis.delete(bench.ledger(run).key)
        result = await (await run.reset_to_first_task()).ended()
    ran = await cli("spend", run.name, "--json")
    assert spent(ran).requests == result.spend.requests
    assert "at least: the run was reset" in ran.err


async def test_a_run_that_was_cut_off_shows_what_its_last_step_used(bench: Bench, cli: Cli) -> None:
    """Terminated in mid-stream: the ledger knows what the stream had reported."""
    fault = Fault(stall_s=60, after_events=4)
    async with bench.worker(app_of(look)):
        run = await bench.start(uses(("look", {})), says(faults=[fault]))
        ledger = bench.ledger(run)

        async def noted() -> bool:
            return any(each["usage"] for each in (await ledger.usages("2")).values())

        await wait_until(noted, 20, what="usage in the ledger")
        await run.handle.terminate("by hand")
    ran = await cli("spend", run.name, "--json")
    assert (spent(ran).requests, spent(ran).lost_requests) == (2, 1)
    assert spent(ran).lost.input_tokens > 0
    assert "the run was cut off" in ran.err
    assert spent(await cli("spend", run.name, "--json", "--offline")).requests == 1


# ---- many runs


async def asked_by_people(bench: Bench, cli: Cli, agent: str, *steps: Step) -> Run:
    name = f"run-{uuid.uuid4().hex[:12]}"
    bench.api.scripts[name] = bench.script(*steps)
    ran = await cli("start", f"Go. [script:{name}]", "--agent", agent, "--id", name)
    assert ran.code == 0, ran.err
    return forked.found(bench, name)


async def test_many_runs_are_summed_by_agent_and_model(bench: Bench, cli: Cli) -> None:
    """Each run counts whole and once, a reset one with all its branches."""
    name, since = f"agent-{uuid.uuid4().hex[:8]}", datetime.now(UTC).isoformat()
    async with bench.worker(App(Agent(name, model=MODEL, tools=[look]))):
        steps = (uses(("look", {})), says())
        runs = [await asked_by_people(bench, cli, name, *steps) for _ in range(2)]
        results = [await run.ended() for run in runs]
        await (await runs[0].reset_to_first_task()).ended()

    async def listed() -> dict[str, Any] | None:
        ran = await cli("spend", "--since", since, "--json")
        found = ran.json["agents"].get(name)
        return ran.json if found and found[MODEL]["requests"] == 4 else None

    document = await wait_until(listed, 20, what="both runs in the sum")
    assert document is not None
    both = sum((result.spend.cost_usd for result in results), Decimal(0))
    assert Decimal(document["agents"][name][MODEL]["cost_usd"]) == both
    assert document["runs"] >= 2
    table = await cli("spend", "--since", since)
    row = next(line.split("\t") for line in table.out.splitlines() if line.startswith(name))
    assert row[:3] == [name, MODEL, "4"]


async def test_a_lost_payload_hides_only_its_own_run(
    bench: Bench, cli: Cli, tmp_path: Path
) -> None:
    """The other runs are summed, and the sum is called a lower bound."""
    name, since = f"agent-{uuid.uuid4().hex[:8]}", datetime.now(UTC).isoformat()
    async with bench.worker(App(Agent(name, model=MODEL))):
        for step in (says(), says("long " * 20_000)):
            await (await asked_by_people(bench, cli, name, step)).ended()
    shutil.rmtree(tmp_path / "payloads")

    async def told() -> str:
        ran = await cli("spend", "--since", since)
        return ran.err if f"{name}\t{MODEL}\t1\t" in ran.out else ""

    assert "at least" in await wait_until(told, 20, what="what the other run cost")


NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("2026-11-29T12:00+00:00", timedelta(days=1)),
    ],
)
def test_since_is_a_time_ago_or_a_date(text: str, ago: timedelta) -> None:
    """Both spellings name a moment."""
    assert moment(text, NOW) == NOW - ago


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "999999w", "yesterday", "2026-12-31"])
def test_any_other_since_is_refused(text: str) -> None:
    """Nothing is summed from a moment that nobody meant."""
    with pytest.raises(UsageError, match="--since is"):
        moment(text, NOW)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ((), "give the id of a run"),
        (("r", "--since", "1d"), "found both a run"),
        (("--since", "1d", "--by", "step"), "--by is for one run"),
        (("--since", "soon"), "--since is 'soon'"),
    ],
)
async def test_what_cannot_be_meant_is_refused(cli: Cli, typed: tuple[str, ...], said: str) -> None:
    """Exit code 2, before any server is asked."""
    ran = await cli("spend", *typed)
    assert (ran.code, said in ran.err) == (2, True)


# ---- in history


ONE = Tally(requests=1, input_tokens=5, cost_usd=Decimal("0.1"))


@pytest.mark.parametrize(
    ("models", "written"),
    [
        ({"claude-a-1": ONE}, {"claude-a-1": None}),
        (
            {"claude-a-1": ONE, "claude-b-1": Tally()},
            {
                "claude-a-1": {"requests": 1, "input_tokens": 5, "cost_usd": "0.1"},
                "claude-b-1": {},
            },
        ),
        ({}, None),
    ],
)
def test_history_holds_what_a_step_cost_once(models: dict[str, Tally], written: object) -> None:
    """The one model of a step is only named, and what is read is what was written."""
    spend = Spend(**dict(ONE), models=models)
    told = ClaudeReply(
        message="{}",
        stop_reason="end_turn",
        head=Head(step="1", digest="d"),
        prev="0",
        witness=Witness(nonce="", inc="", run_id=""),
        spend=spend,
    ).record()
    assert json.loads(told)["spend"].get("models") == written
    assert ClaudeReply.model_validate_json(told).spend == spend


# ---- in words


def test_people_see_each_kind_of_spend() -> None:
    """Lost, saved, unknown prices and several models each have their line."""
    dear = Tally(requests=2, input_tokens=1_000, output_tokens=50, cost_usd=Decimal("0.5"))
    unknown = Tally(requests=1, output_tokens=7, unpriced_requests=1)
    total = dear + unknown
    spend = Spend(
        **dict(total.model_copy(update={"cache_write_tokens": 9, "cache_write_1h_tokens": 4})),
        lost_requests=1,
        lost=Tally(requests=1, input_tokens=300, cost_usd=Decimal("0.25")),
        saved=Tally(requests=2, input_tokens=400, cost_usd=Decimal("0.125")),
        models={"claude-dear-1": dear, "claude-atlas-9": unknown},
    )
    shown = dict(facts(spend, complete=True))
    assert shown["cost"] == "$0.5000 and 1 request of unknown price"
    assert shown["price unknown"] == "claude-atlas-9"
    assert shown["written to cache"] == "9 (4 of them for an hour)"
    assert shown["lost"] == (
        "1 request of those, whose answer was lost: at least 300 tokens, $0.2500"
    )
    assert shown["saved"] == "2 replies found in the record: 400 tokens, $0.1250 not paid again"
    assert shown["claude-dear-1"] == "2 requests, 1,050 tokens, $0.5000"
    assert dict(facts(spend, complete=False))["input tokens"] == "at least 1,000"


def test_rows_add_up_to_the_total() -> None:
    """What no row tells is a row of its own, and nothing is one where the rows tell all."""
    one, total = Tally(requests=1, input_tokens=5), Tally(requests=3, input_tokens=9)
    assert with_other({"1": one}, total) == {"1": one, OTHER: total - one}
    assert with_other({"1": total}, total) == {"1": total}
