"""What cannot be judged about a call is not guessed: no call runs unasked, or as another's twin."""

import json
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, app_of, says, uses
from people import say, waiting
from test_deploys import held_up_by

from onward import tool
from onward.errors import AppError
from onward.testing import wait_until


async def test_a_worker_without_the_tool_prepares_no_call_of_it(bench: Bench) -> None:
    """It cannot tell that the call asks first: the run waits for a worker that can."""
    refunded = list[int]()

    @tool(effect="keyed", ask="always")
    async def refund(cents: int) -> str:
        """Refund."""
        refunded.append(cents)
        return "refunded"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    async with bench.worker(app_of(refund)):
        run = await bench.start(uses(("refund", {"cents": 9}), delay_s=2), says())
        await wait_until(lambda: run.requests, 20, what="the first request")
    async with bench.worker(app_of(look)):
        await held_up_by(run, "lacks tools of this run (refund)")
    async with bench.worker(app_of(refund)):
        await waiting(run)
        assert refunded == []
        await say(run, "approve", "1.1")
        await run.ended()
    assert refunded == [9]


@pytest.mark.parametrize("name", [None, "", 7, ["a"]])
async def test_a_key_that_is_no_text_names_nothing(bench: Bench, name: Any) -> None:
    """Two requests that lack what would name them are not taken for the same."""

    @tool(effect="keyed", key_from=lambda _: name)
    async def act() -> str:
        """Act."""
        raise AssertionError("must not run")

    run = await bench.run(app_of(act), uses(("act", {})), says())
    (told,) = json.loads(run.requests[-1].body)["messages"][-1]["content"]
    assert f"key_from returned {name!r}" in told["content"]


async def _later(_: dict[str, Any]) -> str:
    return "later"


def _of_one(call: dict[str, Any]) -> str:
    return str(call)


def _of_two(call: dict[str, Any], context: Any) -> str:
    return f"{call} {context}"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key_from": "order"}, "give it a function"),
        ({"key_from": _later}, "an async key_from"),
        ({"ask": _later}, "an async ask"),
        ({"effect": "sealed", "seal": True}, "give it a function"),
        ({"ask": "sometimes"}, "'never', 'always', or a function of the call"),
        ({"ask": ["always"]}, "'never', 'always', or a function of the call"),
        ({"ask": lambda: True}, "give it a function of the call"),
        ({"key_from": _of_two}, "give it a function of the call"),
        ({"effect": "sealed", "seal": _of_one}, "function of the call and its context"),
        ({"effect": "timed", "check": lambda: None, "settle_s": 1}, "the call and its context"),
        ({"effect": "read", "moves_money": True}, "'read' and moves_money"),
        ({"effect": "read", "irreversible": True}, "'read' and irreversible"),
        ({"effect": "read", "in_doubt": "person"}, "'read' and in_doubt"),
    ],
)
def test_what_judges_a_call_must_be_a_function(options: dict[str, Any], why: str) -> None:
    """A slip in a declaration is found where it is made, not in the middle of a run."""
    with pytest.raises(AppError, match=why):

        @tool(**options)
        def act() -> None:
            """Act."""


async def test_words_that_are_no_text_are_refused(bench: Bench, cli: Cli) -> None:
    """What a shell hands on may be in another encoding: nothing is said to the run."""

    @tool(effect="keyed", ask="always")
    async def refund() -> None:
        """Refund."""

    async with bench.worker(app_of(refund)):
        run = await bench.start(uses(("refund", {})), says())
        await waiting(run)
        answer = await cli("deny", run.name, "1.1", "--why", "\udcff")
        assert (answer.code, "Give it as UTF-8" in answer.err) == (2, True)
        assert len(await waiting(run)) == 1
        await say(run, "deny", "1.1")
        await run.ended()
