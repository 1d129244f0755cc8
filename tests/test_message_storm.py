"""Messages and approvals sent at random, workers killed, histories continued: each taken once."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from agent_runs import request_body
from crash_runs import CrashBench
from message_storm import Plan, Storm, taken_in_order, texts_of

pytestmark = [pytest.mark.crash, pytest.mark.field("C16"), pytest.mark.field("E07")]

COMMITTED = Path(__file__).parent.parent / "docs" / "figures" / "message-storm.json"
SHORT = Plan(messages=60, approvals=6, kills=2, seed=1)
LONG = Plan(messages=1000, approvals=100, kills=25, seed=2)


async def raged(bench: CrashBench, plan: Plan) -> dict[str, Any]:
    """Let a storm rage, check what came of it, and count."""
    began = time.monotonic()
    storm = await Storm.brew(bench, plan)
    result = await storm.rage()
    took_s = round(time.monotonic() - began, 1)
    assert (result.outcome, result.unseen, result.in_doubt) == ("completed", (), ())
    messages = request_body(storm.run.requests[-1])["messages"]
    check_turns(messages)
    heard = [text for turn in texts_of(messages) for text in turn]
    await check_messages(storm, heard)
    check_effects(bench, storm)
    await storm.run.replay()
    return {
        "messages": len(heard),
        "refused": len(storm.refused),
        "approvals": len(storm.approved),
        "said_again": storm.again,
        "kills": plan.kills,
        "workflow_runs": len(await storm.run.chain()),
        "steps": result.steps,
        "seconds": took_s,
        "seed": plan.seed,
    }


def check_turns(messages: list[dict[str, Any]]) -> None:
    """Results come first in every user turn, and what people said after all of them."""
    for message in messages:
        kinds = [block["type"] for block in message["content"] if message["role"] == "user"]
        assert kinds == sorted(kinds, reverse=True), kinds  # tool_result before text


async def check_messages(storm: Storm, heard: list[str]) -> None:
    """Claude was told what was accepted, each once, in that order; the rest was refused."""
    accounted = [*storm.accepted, *storm.refused]
    assert sorted(accounted) == sorted(f"message {n}." for n in range(storm.plan.messages))
    assert heard == await taken_in_order(storm.run)
    assert sorted(heard) == sorted(storm.accepted)


def check_effects(bench: CrashBench, storm: Storm) -> None:
    """Each refund was approved, and made once."""
    orders = [f"{storm.run.name}-{number}" for number in range(storm.plan.approvals)]
    assert len(storm.approved) == len(orders)
    assert {order: bench.effects(order) for order in orders} == dict.fromkeys(orders, 1)


@pytest.mark.timeout(300)
async def test_what_is_said_in_a_storm_is_taken_once(crash_bench: CrashBench) -> None:
    """60 messages and 6 approvals, some twice, two workers killed, histories continued."""
    figures = await raged(crash_bench, SHORT)
    assert figures["workflow_runs"] > 2


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_what_is_said_in_a_long_storm_is_taken_once(crash_bench: CrashBench) -> None:
    """1,000 messages and 100 approvals; the figures are kept in ONWARD_FIGURES."""
    _keep(await raged(crash_bench, LONG))


def _keep(figures: dict[str, Any]) -> None:
    if folder := os.environ.get("ONWARD_FIGURES"):
        text = json.dumps(figures, indent=2) + "\n"
        Path(folder, "message-storm.json").write_text(text, encoding="utf-8")


def test_the_committed_figures_are_those_that_are_promised() -> None:
    """What the page on messages says was measured, as much of it as it says."""
    found = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert (found["messages"] + found["refused"], found["approvals"]) == (1000, 100)
    assert found["kills"] == LONG.kills
