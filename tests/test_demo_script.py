"""The demo's script and plan of kills: long enough, with everything in it, decided by the seed."""

import json
from itertools import pairwise
from typing import Any

import pytest

from onward.demo import refactor, script
from onward.demo.refactor import Refactor
from onward.demo.script import PLACES, Effect, Script
from onward.errors import UsageError
from onward.testing.messages_api.script import scripts_from


@pytest.fixture(scope="module")
def plan() -> Refactor:
    return refactor.plan()


@pytest.mark.parametrize("kills", range(script.MAX_KILLS + 1))
@pytest.mark.parametrize("seed", range(5))
def test_a_script_has_all_it_needs_whatever_the_options(
    plan: Refactor, kills: int, seed: int
) -> None:
    """At least 40 steps, every edit once and in order, effects of both kinds, all kills apart."""
    made = script.build(plan, kills=kills, seed=seed)
    assert len(made.steps) >= 40
    edits = [call["input"] for call in _calls(made) if call["name"] == "edit"]
    assert [edit["new_string"] for edit in edits] == [edit.new_string for edit in plan.edits]
    assert {effect.endpoint for effect in made.effects} == {"/refunds", "/plain/refunds"}
    assert len({effect.order for effect in made.effects}) == len(made.effects)
    steps = [kill.step for kill in made.kills]
    assert len(steps) == kills
    assert all(later - earlier >= 2 for earlier, later in pairwise(steps))


def test_three_kills_strike_in_claude_in_a_keyed_tool_and_between_steps(plan: Refactor) -> None:
    """The default demo leaves the at_most_once tool alone; more kills come to it too."""
    for seed in range(20):
        assert {kill.place for kill in script.build(plan, kills=3, seed=seed).kills} == {
            "claude",
            "tool",
            "between",
        }
        assert {kill.place for kill in script.build(plan, kills=4, seed=seed).kills} == set(PLACES)


def test_the_seed_decides_everything(plan: Refactor) -> None:
    """The same seed gives the same script and kills, another one gives others."""
    assert script.build(plan, kills=3, seed=7) == script.build(plan, kills=3, seed=7)
    assert script.build(plan, kills=3, seed=7).kills != script.build(plan, kills=3, seed=8).kills


def test_a_kill_in_a_tool_is_in_the_step_that_asks_for_that_refund(plan: Refactor) -> None:
    """Order and step of the plan belong together, and the service is slow for that order only."""
    made = script.build(plan, kills=4, seed=3)
    for kill in made.kills:
        calls = [block for block in made.steps[kill.step - 1]["content"] if "input" in block]
        if kill.order:
            assert calls[0]["input"]["order_id"] == kill.order
    assert set(made.delays) == {kill.order for kill in made.kills if kill.order}


def test_two_calls_are_asked_for_at_once_somewhere(plan: Refactor) -> None:
    """Parallel calls are part of the run."""
    made = script.build(plan, kills=3, seed=0)
    assert max(len(step["content"]) for step in made.steps) >= 3


def test_effects_are_exactly_the_refunds_that_the_script_asks_for(plan: Refactor) -> None:
    """What the audit expects is what Claude asks for."""
    made = script.build(plan, kills=3, seed=1)
    endpoints = {"refund": "/refunds", "legacy_refund": "/plain/refunds"}
    asked = [
        Effect(endpoints[call["name"]], *call["input"].values())
        for call in _calls(made)
        if call["name"] in endpoints
    ]
    assert list(made.effects) == asked


def test_the_scripted_server_reads_it(plan: Refactor) -> None:
    """The file has the server's own format."""
    made = script.build(plan, kills=12, seed=0)
    read = scripts_from(json.loads(json.dumps(made.scripts())))
    assert len(read[script.SCRIPT].steps) == len(made.steps)


@pytest.mark.parametrize("kills", [-1, 13])
def test_an_impossible_number_of_kills_is_refused_with_the_range(
    plan: Refactor, kills: int
) -> None:
    """A clear error instead of a plan that cannot be."""
    with pytest.raises(UsageError, match="0 to 12"):
        script.build(plan, kills=kills, seed=0)


def _calls(made: Script) -> list[dict[str, Any]]:
    return [block for step in made.steps for block in step["content"] if block["type"] != "text"]
