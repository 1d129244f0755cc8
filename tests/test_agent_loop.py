"""The loop, as a person sees it: ask Claude, run what it asks for, repeat."""

import json

import pytest
from agent_runs import Bench, app_of, says, uses

from onward import tool


@tool(effect="read")
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing at {where}"


@pytest.mark.replay
async def test_a_run_asks_runs_tools_and_ends(bench: Bench) -> None:
    """The story: Claude asks for a tool, gets its result, answers, and the run completes."""
    run = await bench.run(app_of(look), uses(("look", {"where": "here"})), says("I saw nothing."))
    assert run.result is not None
    assert (run.result.outcome, run.result.text, run.result.steps) == (
        "completed",
        "I saw nothing.",
        2,
    )
    assert run.result.spend.requests == 2
    assert run.result.spend.cost_usd > 0
    last = json.loads(run.requests[-1].body)
    assert [message["role"] for message in last["messages"]] == ["user", "assistant", "user"]
    assert last["messages"][2]["content"][0]["content"] == "nothing at here"
    await run.replay()
