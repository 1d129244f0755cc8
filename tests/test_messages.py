"""What people say to Claude while it works: seen once, in order, where the API takes it."""

import asyncio
import json
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import FOUND, SEARCH, Bench, Run, app_of, request_body, says, uses
from forked import fork
from people import say, send, waiting
from temporalio.client import RPCError, WorkflowUpdateFailedError

from onward import tool
from onward.messages import PersonSaid
from onward.testing import wait_until
from onward.testing.messages_api import Asked, Step

pytestmark = [pytest.mark.replay, pytest.mark.timeout(120)]


class Gate:
    """Tools whose calls wait until the test lets them go on."""

    def __init__(self) -> None:
        self.reached, self.opened = 0, threading.Event()

        @tool(effect="read")
        def look(at: str) -> str:
            """Look."""
            self.reached += 1
            self.opened.wait(30)
            return f"saw {at}"

        @tool(effect="keyed", ask="always")
        async def pay(cents: int) -> str:
            """Pay."""
            return f"paid {cents}"

        self.tools = look, pay


def last_turn(run: Run) -> list[str]:
    """What the newest request's last message holds: the text of each block, results in brackets."""
    (*_, message) = request_body(run.requests[-1])["messages"]
    assert message["role"] == "user"
    return [_shown(block) for block in message["content"]]


def _shown(block: dict[str, Any]) -> str:
    return f"[{block['content']}]" if block["type"] == "tool_result" else str(block["text"])


def said(run: Run) -> list[str]:
    """What people said in the whole conversation, but for its prompt."""
    if not run.requests:
        return []
    users = (m for m in request_body(run.requests[-1])["messages"] if m["role"] == "user")
    blocks = (block for message in users for block in message["content"])
    return [block["text"] for block in blocks if block["type"] == "text"][1:]


def slowly(text: str) -> Step:
    """Make a step whose reply takes longer than a busy machine needs to hear a message."""
    return says(text * 8, chunk_delay_s=0.3)


async def asked(run: Run, times: int) -> None:
    await wait_until(lambda: len(run.requests) >= times, 30, what=f"request {times} to Claude")


@pytest.mark.field("E07")
async def test_what_is_said_while_tools_run_follows_their_results(bench: Bench) -> None:
    """In the same user turn: results first, then each message as a block of its own, in order."""
    gate = Gate()
    async with bench.worker(app_of(*gate.tools)):
        run = await bench.start(uses(("look", {"at": "A"}), ("look", {"at": "C"})), says())
        await wait_until(lambda: gate.reached == 2, 30, what="both tools")
        assert (await send(run, "also check B"))["unseen"] == 1
        answers = await asyncio.gather(*(send(run, f"and {n}") for n in "DEF"))
        assert sorted(answer["unseen"] for answer in answers) == [2, 3, 4]
        gate.opened.set()
        assert (await run.ended()).outcome == "completed"
    first, second, *words = last_turn(run)
    assert (first, second, words[0]) == ("[saw A]", "[saw C]", "also check B")
    by_place = sorted(zip("DEF", answers, strict=True), key=lambda each: each[1]["unseen"])
    assert words[1:] == [f"and {name}" for name, _ in by_place]
    await run.replay()


@pytest.mark.field("E07")
async def test_what_is_said_while_a_turn_is_paused_waits_for_the_next(bench: Bench) -> None:
    """The API takes nothing beside the turn that it paused; Claude sees it in the turn after."""
    paused = Step(
        content=[{"type": "text", "text": "Searching. " * 8}, SEARCH],
        stop_reason="pause_turn",
        chunk_delay_s=0.3,
    )
    goes_on = Step(content=[FOUND, {"type": "text", "text": "It rains."}])
    async with bench.worker(app_of()):
        run = await bench.start(paused, goes_on, says("Tomorrow too."))
        await asked(run, 1)
        await send(run, "and tomorrow?")
        assert (await run.ended()).text == "Tomorrow too."
    assert [entry.step for entry in run.requests] == [0, 1, 2]
    assert request_body(run.requests[1])["messages"][-1]["role"] == "assistant"
    assert last_turn(run) == ["and tomorrow?"]
    await run.replay()


@pytest.mark.field("E07")
async def test_what_is_said_while_a_call_waits_for_its_approval(bench: Bench) -> None:
    """It follows the result of the call that waited, and decides nothing about it."""
    gate = Gate()
    async with bench.worker(app_of(*gate.tools)):
        run = await bench.start(uses(("pay", {"cents": 5})), says())
        await waiting(run)
        await send(run, "yes, do")
        assert len(await waiting(run)) == 1
        await say(run, "approve", "1.1")
        await run.ended()
    assert last_turn(run) == ["[paid 5]", "yes, do"]
    await run.replay()


@pytest.mark.field("C16")
async def test_a_run_that_was_just_finishing_goes_on(bench: Bench) -> None:
    """Said during Claude's last words, it gets a step of its own; after the end, none takes it."""
    async with bench.worker(app_of()):
        run = await bench.start(slowly("The end. "), says("B is fine."))
        await asked(run, 1)
        await send(run, "also check B")
        result = await run.ended()
        assert (result.text, result.steps, result.unseen) == ("B is fine.", 2, ())
        with pytest.raises(RPCError, match="completed"):
            await send(run, "and C")
    assert last_turn(run) == ["also check B"]
    await run.replay()


@pytest.mark.field("C16")
async def test_messages_around_continue_as_new_are_taken_once(bench: Bench) -> None:
    """Twenty at random moments, each sent a second time later: all are seen, once, in order."""
    chance, texts = random.Random(7), [f"message {number}" for number in range(20)]  # noqa: S311
    gate = Gate()
    gate.opened.set()
    app = app_of(*gate.tools)
    async with replace(bench, history_events=30).worker(app, max_cached_workflows=10):
        run = await bench.start()
        bench.api.scripts[run.name] = until_told(texts[16])
        for number, text in enumerate(texts):
            if number == 17:  # the others come in the final turn
                await wait_until(lambda: texts[16] in said(run), 30, what="the final turn")
            await send(run, text, id=f"m-{number}")
            await send(run, "something else", id=f"m-{chance.randrange(number + 1)}")
            await asyncio.sleep(chance.uniform(0, 0.1))  # at random moments, as people do
        result = await run.ended()
    assert (result.outcome, result.unseen) == ("completed", ())
    assert len(await run.chain()) > 2
    assert said(run) == texts
    await run.replay()


def until_told(text: str) -> Callable[[Asked], Step]:
    """Let Claude look until it is told that; then it says something at length, and stops."""

    def answer(asked: Asked) -> Step:
        told = f'"{text}"' in json.dumps(asked.body)
        return slowly("The end. ") if told else uses(("look", {"at": str(asked.step)}))

    return answer


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"text": " \n"}, "empty"),
        ({"text": "x" * 100_001}, "100,001 bytes"),
        ({"text": "x", "id": "prompt"}, "'prompt'"),
        ({"text": "x", "id": "continue:1"}, "'continue:1'"),
        ({"text": "x", "id": "i" * 201}, "200 printable characters at most"),
        ({"text": "x", "id": "a\n── step 9 ──"}, "200 printable characters at most"),
    ],
)
async def test_what_cannot_be_told_is_refused(
    bench: Bench, message: dict[str, str], why: str
) -> None:
    """At once, with the reason; ids that Onward uses itself would be taken for its own words."""
    async with bench.worker(app_of()):
        run = await bench.start(slowly("Well. "))
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await send(run, **message)
        assert why in str(refused.value.cause)
        await run.handle.signal("cancel")
        await run.ended()


async def test_what_claude_never_saw_is_said_and_a_fork_goes_on_with_it(
    bench: Bench, cli: Cli
) -> None:
    """A run that was stopped first names the message; its fork tells it before its own words."""
    async with bench.worker(app_of()):
        run = await bench.start(uses(("nothing", {})), slowly("Well. "))
        await asked(run, 2)
        await send(run, "also check B", id="m-1")
        await run.handle.signal("cancel", "wrong order")
        result = await run.ended()
        assert result.unseen == (PersonSaid(id="m-1", text="also check B"),)
        for command in ("result", "watch", "transcript"):
            shown = await cli(command, run.name)
            assert "Claude never saw a message" in shown.err
            assert "\n  m-1: also check B" in shown.err
        status = await cli("status", run.name)
        assert "not seen by Claude  1 message" in status.out
        forked = await fork(cli, run, "--message", "And C?", then=[says()])
        assert (await forked.ended()).unseen == ()
    assert last_turn(run)[-2:] == ["also check B", "And C?"]
    await forked.replay()


async def test_what_claude_never_saw_is_enough_to_fork(bench: Bench, cli: Cli) -> None:
    """A run whose last reply asked for nothing goes on with what was said, and nothing else."""
    async with bench.worker(app_of()):
        run = await bench.start(slowly("Well. "), max_output_tokens=10_000)
        await asked(run, 1)
        await send(run, "also check B", id="m-1")
        await say_limit(run, max_steps=1)
        assert (await run.ended()).outcome == "limit_steps"
        forked = await fork(cli, run, "--max-steps", "5", then=[says()])
        assert (await forked.ended()).outcome == "completed"
    assert last_turn(run) == ["also check B"]


async def say_limit(run: Run, **limits: Any) -> None:
    handle: Any = run.handle
    await handle.execute_update("limit", limits)


@pytest.mark.field("C16")
async def test_an_update_that_comes_again_is_known_after_continue_as_new(bench: Bench) -> None:
    """Temporal knows its id within one workflow run only: a message and a decision count once."""
    gate, pays = Gate(), [uses(("pay", {"cents": cents})) for cents in (5, 6)]
    async with replace(bench, history_events=12).worker(app_of(*gate.tools)):
        run = await bench.start(*pays, says())
        await waiting(run)
        await send(run, "also check B", update="u-1")
        first = await approve_as(run, "u-2")
        await wait_until(lambda: len(run.requests) > 1, 30, what="the second step")
        await wait_until(lambda: continued(run), 30, what="continue-as-new")
        await waiting(run)
        assert await send(run, "something else", update="u-1") == {"id": "u-1", "unseen": 0}
        assert await approve_as(run, "u-2") == first
        assert len(await waiting(run)) == 1
        await say(run, "approve", "2.1")
        await run.ended()
    assert said(run) == ["also check B"]
    await run.replay()


async def approve_as(run: Run, update: str) -> Any:
    handle: Any = run.handle
    return await handle.execute_update("approve", {"call": "1.1"}, id=update)


async def continued(run: Run) -> bool:
    return len(await run.chain()) > 1
