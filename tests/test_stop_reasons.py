"""Why Claude stopped decides what comes next: each reason has its step or its named outcome."""

import json
from typing import Any

import pytest
from agent_runs import FOUND, SEARCH, Bench, Run, app_of, request_body, says, uses
from crash_runs import CrashBench

from onward import tool
from onward.names import CALL_CLAUDE
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step

THOUGHT = {"type": "thinking", "thinking": "", "signature": "c2ln"}
USE = {"type": "tool_use", "name": "act", "input": {"what": "it, told at some length"}}
FIRST, SECOND = "The first half of it, and ", "the other half."


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def paused(words: str = "Searching. ") -> Step:
    """A turn that the API pauses while its own tool is at work."""
    return Step(content=[text(words), SEARCH], stop_reason="pause_turn")


def used(input_tokens: int) -> dict[str, Any]:
    """Usage of a reply without caching."""
    nothing = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": nothing,
        "output_tokens": 1,
    }


def turns(run: Run, request: int = -1) -> list[dict[str, Any]]:
    """Messages of a request."""
    found: list[dict[str, Any]] = request_body(run.requests[request])["messages"]
    return found


def steps_of(history: Any) -> list[str]:
    """Ids of the steps that Claude was asked, in order."""
    asked = (event.activity_task_scheduled_event_attributes for event in history.events)
    given = [each.input for each in asked if each.activity_type.name == CALL_CLAUDE]
    return [json.loads(each.payloads[0].data)["step"] for each in given]


class Acted:
    """A tool that counts what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool
        async def act(what: str) -> str:
            """Act."""
            self.done.append(what)
            return f"did {what}"

        self.act = act


# ---- pause_turn


@pytest.mark.field("A14")
@pytest.mark.replay
async def test_a_paused_turn_goes_back_unchanged_and_goes_on(bench: Bench) -> None:
    """Its blocks are the last message of the next request, a step of its own; usage is summed."""
    ends = Step(content=[FOUND, text("It rains.")], usage=used(30))
    steps = paused().model_copy(update={"usage": used(12)}), ends
    run = await bench.run(app_of(), *steps)
    assert run.result is not None
    assert turns(run)[-1] == {"role": "assistant", "content": [text("Searching. "), SEARCH]}
    assert (run.result.outcome, run.result.text) == ("completed", "Searching. It rains.")
    assert (run.result.steps, run.result.spend.input_tokens) == (2, 42)
    assert steps_of(await run.history()) == ["1", "2"]
    await run.replay()


@pytest.mark.field("A14")
async def test_a_turn_that_is_paused_for_ever_ends(bench: Bench) -> None:
    """After twenty pauses in a row one more is too many; what was said is the partial result."""
    run = await bench.run(app_of(), *[paused("On. ")] * 50)
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("limit_repeats", 21)
    assert "paused" in run.result.detail
    assert run.result.text == "On. " * 21


@pytest.mark.field("A14")
@pytest.mark.crash
async def test_a_crash_between_pauses_repeats_no_finished_one(crash_bench: CrashBench) -> None:
    """The worker dies in the third request: the first two are not asked again."""
    third = says("It rains.", faults=[Fault(hold_s=60)])
    async with crash_bench.worker() as worker:
        run = await crash_bench.bench.start(paused(), paused(), third)
        await wait_until(lambda: len(run.requests) > 2, 30, what="the third request")
        await worker.kill()
    async with crash_bench.worker():
        result = await run.ended()
    assert (result.outcome, [entry.step for entry in run.requests]) == ("completed", [0, 1, 2, 2])
    assert turns(run, 2) == turns(run, 3)


# ---- max_tokens


@pytest.mark.replay
async def test_words_that_were_cut_off_are_gone_on_with(bench: Bench) -> None:
    """They go back as they are, Claude is told to go on, and the run's text is all of it."""
    cut = Step(content=[THOUGHT, text(FIRST)], stop_reason="max_tokens")
    run = await bench.run(app_of(), cut, says(SECOND))
    assert run.result is not None
    asked = turns(run)
    assert asked[1] == {"role": "assistant", "content": [THOUGHT, text(FIRST)]}
    assert (asked[2]["role"], "Go on" in asked[2]["content"][0]["text"]) == ("user", True)
    assert (run.result.outcome, run.result.text) == ("completed", FIRST + SECOND)
    assert (run.result.steps, steps_of(await run.history())) == (2, ["1", "2"])
    await run.replay()


@pytest.mark.field("A13")
@pytest.mark.replay
@pytest.mark.parametrize(
    "before", [[], [text("I act.")], [USE]], ids=["call", "words", "two calls"]
)
async def test_a_call_that_was_cut_off_is_asked_for_again_with_more_room(
    bench: Bench, before: list[dict[str, Any]]
) -> None:
    """A new step id, a larger `max_tokens`, and nothing of the first try in the conversation."""
    acted, calls = Acted(), before.count(USE) + 1
    step = Step(content=[*before, USE], needs_tokens=1500)
    run = await bench.run(app_of(acted.act, max_tokens=1000), step, says())
    assert run.result is not None
    assert (run.result.outcome, len(acted.done)) == ("completed", calls)
    assert steps_of(await run.history()) == ["1", "1.r1", "2"]
    assert [json.loads(entry.body)["max_tokens"] for entry in run.requests] == [1000, 2000, 2000]
    assert turns(run, 0) == turns(run, 1)
    assert (run.result.steps, run.result.spend.requests) == (2, 3)
    await run.replay()


@pytest.mark.parametrize("content", [[], [THOUGHT], [text(" ")]], ids=["none", "thought", "blank"])
async def test_a_reply_that_was_cut_off_before_a_word_is_asked_for_again(
    bench: Bench, content: list[dict[str, Any]]
) -> None:
    """There is nothing to go on with, so Claude is not told to."""
    run = await bench.run(app_of(max_tokens=1000), Step(content=content, needs_tokens=1500))
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("completed", 2)
    assert turns(run, 0) == turns(run, 1)


@pytest.mark.parametrize("words", [True, False])
async def test_a_reply_that_is_cut_off_again_and_again_ends(bench: Bench, *, words: bool) -> None:
    """Neither continuations nor redos go on for ever; no tool runs, and the cause is named."""
    acted = Acted()
    cut = Step(content=[text("More. ") if words else USE], stop_reason="max_tokens")
    run = await bench.run(app_of(acted.act, max_tokens=1000), *[cut] * 9)
    assert run.result is not None
    assert (run.result.outcome, acted.done) == ("max_tokens", [])
    assert len(run.requests) <= 4
    assert run.result.spend.requests == len(run.requests)


# ---- refusal


@pytest.mark.field("A16")
@pytest.mark.parametrize("partial", [[], [text("Well, ")], [text("Well, "), USE]])
async def test_a_refusal_is_no_answer(bench: Bench, partial: list[dict[str, Any]]) -> None:
    """After an effect: the run is `refused`, with why; nothing is retried, run or kept of it."""
    acted = Acted()
    details = {"type": "refusal", "category": "cyber", "explanation": "It is not allowed."}
    declines = Step(content=partial, stop_reason="refusal", fields={"stop_details": details})
    run = await bench.run(app_of(acted.act), uses(("act", {"what": "it"})), declines)
    assert run.result is not None
    assert (run.result.outcome, len(run.requests), acted.done) == ("refused", 2, ["it"])
    assert "cyber" in run.result.detail
    assert "It is not allowed." in run.result.detail
    assert (run.result.text, run.result.spend.requests) == ("", 2)


# ---- what is not known


@pytest.mark.field("A18")
@pytest.mark.parametrize(
    ("stop", "outcome"),
    [("model_context_window_exceeded", "context_exceeded"), ("zzz_new", "unknown_stop")],
)
async def test_any_other_reason_is_no_success(bench: Bench, stop: str, outcome: str) -> None:
    """It ends the run once, by name, with the raw value; half a call of it never runs."""
    acted = Acted()
    half = Step(content=[text("I act."), USE], stop_reason=stop)
    run = await bench.run(app_of(acted.act), half)
    assert run.result is not None
    assert (run.result.outcome, acted.done, len(run.requests)) == (outcome, [], 1)
    assert "'zzz_new'" in run.result.detail or stop != "zzz_new"
    assert run.result.text == "I act."


@pytest.mark.parametrize("stop", ["end_turn", "stop_sequence", "max_tokens"])
async def test_only_a_reply_that_stopped_for_tools_runs_any(bench: Bench, stop: str) -> None:
    """Whatever else it says, a call in a reply that stopped for another reason is never run."""
    acted = Acted()
    run = await bench.run(app_of(acted.act), Step(content=[USE], stop_reason=stop))
    assert run.result is not None
    assert acted.done == []
