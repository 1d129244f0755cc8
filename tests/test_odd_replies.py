"""A reply is paid for: whatever is odd in it, it is kept, or refused once."""

from typing import Any

import pytest
from agent_runs import Bench, app_of, says, uses
from calls_prepared import prepared
from claude_streams import call, stream

from onward import tool
from onward.transcript import last_text

SAID = ({"type": "text", "text": "Hi."}, "")


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([call('{"x": "a"}'), call('{"x": "b"}')], id="one id for two calls"),
        pytest.param([call('{"x": "a"}', id=None)], id="no id"),
        pytest.param([call('{"x": "a"}', name=None)], id="no name"),
        pytest.param([call(f'{{"x": {"[" * 900}{"]" * 900}}}')], id="900 deep"),
    ],
)
async def test_a_call_that_cannot_be_answered_is_refused_at_once(bench: Bench, blocks: Any) -> None:
    """Its results could not be sent back: no effect of the reply runs, no request repeats."""
    ran: list[str] = []

    @tool
    async def act(x: Any) -> str:
        """Act."""
        ran.append(x)
        return "done"

    async with bench.worker(app_of(act)):
        run = await bench.start(stream(*blocks), says())
        result = await run.failed()
    assert (ran, len(run.requests), result.spend.requests) == ([], 1, 1)
    assert "cannot be kept without loss" in result.detail


def test_last_words_with_half_an_emoji_can_be_told() -> None:
    """No encoding carries half a surrogate pair: it failed a run whose replies were all paid."""
    message = r'{"content":[{"type":"text","text":"Done \ud83d."}]}'
    assert last_text(message) == "Done \ufffd."


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 5000], ids=["infinite", "5001 digits"])
def test_a_number_that_python_cannot_hold_is_told_to_claude(number: str) -> None:
    """The reply is kept, and the call refused: an error here would pay for ten replies."""

    @tool
    async def act(x: float) -> None:
        """Act."""

    assert "cannot be used" in (prepared(act, f'{{"x":{number}}}').refusal or "")


async def test_deep_arguments_are_arguments(bench: Bench) -> None:
    """Nested 200 deep they go to the tool and back to Claude unchanged."""

    @tool
    async def act(x: Any) -> str:
        """Act."""
        return f"done with {type(x)}"

    run = await bench.run(app_of(act), stream(call(f'{{"x": {"[" * 199}{"]" * 199}}}')), says())
    assert run.result is not None
    assert run.result.outcome == "completed"


async def test_usage_with_a_fraction_is_counted(bench: Bench) -> None:
    """Proxies report odd numbers; one that cannot be noted must not lose the reply."""
    usage = {"input_tokens": 50.0, "cache_read_input_tokens": 10**30, "cost": 0.00125}
    run = await bench.run(app_of(), stream(SAID, stop="end_turn", usage=usage))
    assert run.result is not None
    spend = run.result.spend
    assert (run.result.outcome, spend.requests, spend.tokens) == ("completed", 1, 50 + 9)


async def test_a_null_at_the_end_takes_no_tokens_back(bench: Bench) -> None:
    """`message_delta` may say null for what `message_start` counted."""
    last = {"input_tokens": None, "output_tokens": 9}
    run = await bench.run(app_of(), stream(SAID, stop="end_turn", last_usage=last))
    assert run.result is not None
    assert run.result.spend.input_tokens == 50


async def test_a_doubt_whose_reason_no_encoding_carries_is_told(bench: Bench) -> None:
    """Half a surrogate pair in an exception keeps no call from ending."""

    @tool
    async def act() -> None:
        """Act."""
        raise RuntimeError("bad \ud83d byte")

    run = await bench.run(app_of(act), uses(("act", {})), says())
    assert run.result is not None
    assert (run.result.outcome, run.result.in_doubt) == ("completed", ("1.1",))


async def test_many_paused_turns_are_no_failures(bench: Bench) -> None:
    """A turn that Claude paused asks for no call, so it is none in which every call failed."""
    pauses = [stream(SAID, stop="pause_turn")] * 11
    run = await bench.run(app_of(), *pauses, says())
    assert run.result is not None
    assert (run.result.outcome, run.result.steps) == ("completed", 12)
