"""A paused run finishes its step and waits; what is said to it meanwhile counts once."""

import asyncio
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import MODEL, Bench, Run, app_of, request_body, says, uses
from people import refused, say, waiting
from temporalio.client import WorkflowUpdateFailedError
from test_carried_waits import continued

from onward import Agent, App, tool
from onward.messages import Message, Otherwise, RunStatus, Sent
from onward.testing import wait_until

pytestmark = pytest.mark.replay


@tool
async def weigh(parcel: int) -> str:
    """Weigh a parcel."""
    return f"parcel {parcel} weighs 2 kg"


async def is_doing(run: Run, doing: str) -> RunStatus:
    """Wait until the run does that."""
    seen: list[RunStatus] = []

    async def does() -> bool:
        seen[:] = [await run.status()]
        return seen[0].doing == doing

    await wait_until(does, 30, what=f"a run that is {doing}")
    return seen[0]


async def pause(run: Run, **said: str) -> RunStatus:
    """Pause the run in its first step, and wait until that has ended."""
    await wait_until(lambda: run.requests, 30, what="the first request")
    await run.handle.signal("pause", said)
    return await is_doing(run, "paused")


async def tell(run: Run, text: str, name: str, **options: Any) -> Sent:
    handle: Any = run.handle
    said: Any = await handle.execute_update("send", Message(text=text, id=name), **options)
    return Sent.model_validate(said)


async def test_a_paused_run_waits_and_goes_on(bench: Bench) -> None:
    """It asks Claude nothing, its time does not count, and `resume` lets it go on."""
    async with bench.worker(app_of(weigh)):
        run = await bench.start(uses(("weigh", {"parcel": 1}), delay_s=1.5), says())
        paused = await pause(run, reason="lunch", by="ops")
        assert (paused.state, paused.steps) == ("paused", 1)
        assert paused.paused is not None
        assert (paused.paused.reason, paused.paused.by) == ("lunch", "ops")
        await asyncio.sleep(1.1)
        assert len(run.requests) == 1
        await run.handle.signal("pause")  # already: no harm
        await run.handle.signal("resume")
        assert (await run.ended()).outcome == "completed"
        ended = await run.status()
    between_s = (ended.at_ms - paused.at_ms) / 1000
    assert between_s - (ended.went_s - paused.went_s) > 0.8
    await run.replay()


async def test_a_paused_run_continues_as_new_and_stays_paused(bench: Bench) -> None:
    """What people send meanwhile is kept, in order, and Claude sees it as the run goes on."""
    bench.history_events = 12
    async with bench.worker(app_of(weigh)):
        run = await bench.start(uses(("weigh", {"parcel": 1}), delay_s=1.5), says())
        await pause(run)
        for number in range(4):
            await tell(run, f"word {number}", f"m{number}")
        await continued(run)
        paused = await is_doing(run, "paused")
        assert (paused.state, paused.unseen) == ("paused", 4)
        assert (await tell(run, "word 1", "m1")).unseen == 2  # sent again, to the next workflow run
        await run.handle.signal("resume")
        await run.ended()
    assert said_last(run) == ["word 0", "word 1", "word 2", "word 3"]


def said_last(run: Run) -> list[str]:
    """Return the texts in Claude's last user turn."""
    content = request_body(run.requests[-1])["messages"][-1]["content"]
    return [block["text"] for block in content if block["type"] == "text"]


async def test_a_cancel_ends_a_paused_run(bench: Bench) -> None:
    """Nobody has to resume it first; nor one that was to end after its step."""
    async with bench.worker(app_of(weigh)):
        run = await bench.start(uses(("weigh", {"parcel": 1}), delay_s=1.5), says())
        await pause(run)
        await run.handle.signal("cancel", {"reason": "enough", "after_step": True})
        result = await run.ended()
    assert (result.outcome, result.detail, result.steps) == ("cancelled", "cancelled: enough", 1)
    await run.replay()


async def test_a_message_keeps_a_run_from_ending(bench: Bench) -> None:
    """Sent while Claude came to its last words: the run goes on, and Claude answers it."""
    async with bench.worker(app_of(weigh)):
        run = await bench.start(says("Done.", delay_s=1.0), says("Parcel 2 as well."))
        await wait_until(lambda: len(run.requests) == 1, 30, what="the request")
        await tell(run, "And parcel 2?", "m1")
        result = await run.ended()
    assert (result.outcome, result.text, result.unseen) == ("completed", "Parcel 2 as well.", ())
    await run.replay()


async def test_who_sends_to_a_run_that_ends_is_told(bench: Bench) -> None:
    """Neither an empty message nor one to a cancelled run is taken."""
    async with bench.worker(app_of(weigh)):
        run = await bench.start(says("Done.", delay_s=20.0))
        await wait_until(lambda: len(run.requests) == 1, 30, what="the request")
        with pytest.raises(WorkflowUpdateFailedError) as empty:
            await tell(run, "  ", "m0")
        assert "empty" in str(empty.value.cause)
        sent = await tell(run, "too late", "m1")
        await run.handle.signal("cancel")
        result = await run.ended()
    assert sent.unseen == 1
    assert [each.text for each in result.unseen] == ["too late"]


def payer(paid: list[int]) -> Any:
    """Make a tool that always asks first."""

    @tool(effect="keyed", ask="always")
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    return pay


async def test_what_is_remembered_is_not_asked_again(bench: Bench) -> None:
    """In this run only, also after it continued as new; calls that were shown already stay so."""
    bench.history_events = 25
    paid = list[int]()
    async with bench.worker(app_of(payer(paid))):
        steps = [uses(("pay", {"cents": 1}), ("pay", {"cents": 2})), uses(("pay", {"cents": 3}))]
        run = await bench.start(*steps, uses(("pay", {"cents": 4})), says())
        await waiting(run, 2)
        await say(run, "approve", "1.1", remember=True)
        await say(run, "deny", "1.2", why="no")
        result = await run.ended()
    assert (result.outcome, paid) == ("completed", [1, 3, 4])
    assert len(await run.chain()) > 1


async def test_a_reason_that_could_not_be_decided_is_not_remembered(bench: Bench, cli: Cli) -> None:
    """A fault in a rule must not let every later call pass; who approves is told."""

    @tool(effect="read", ask=lambda call: call["absent"])
    async def peek(what: str) -> str:
        """Look."""
        return f"saw {what}"

    async with bench.worker(app_of(peek)):
        run = await bench.start(
            uses(("peek", {"what": "a"})), uses(("peek", {"what": "b"})), says()
        )
        (first,) = await waiting(run)
        assert "could not be decided" in first.why
        told = await cli("approve", run.name, "1.1", "--remember")
        assert (told.code, "not remembered" in told.err) == (0, True)
        (second,) = await waiting(run)
        assert second.call == "2.1"
        await say(run, "deny", "2.1")
        await run.ended()


async def test_an_edited_approval_is_never_remembered(bench: Bench) -> None:
    """The next call of the tool is asked about again; Claude is told what ran instead."""
    paid = list[int]()
    async with bench.worker(app_of(payer(paid))):
        run = await bench.start(uses(("pay", {"cents": 900})), uses(("pay", {"cents": 5})), says())
        await waiting(run)
        assert "cents" in await refused(run, "approve", "1.1", edit='{"cents": "many"}')
        long = '{"cents": "' + "9" * 100_000 + '"}'
        assert "expected 100,000 at most" in await refused(run, "approve", "1.1", edit=long)
        await say(run, "approve", "1.1", edit={"cents": 9}, remember=True)  # as one types in the UI
        await waiting(run)
        await say(run, "deny", "2.1")
        await run.ended()
    assert paid == [9]
    assert '\\"cents\\":900' not in run.requests[-1].body.replace(" ", "")
    told = run.requests[1].body
    assert "A person changed" in told
    await run.replay()


def hurried(otherwise: Otherwise, paid: list[int]) -> App:
    """Make an app whose approvals are waited for a moment only."""
    tools = [payer(paid)]
    return App(
        Agent("tester", model=MODEL, tools=tools, ask_timeout_s=0.5, at_ask_timeout=otherwise)
    )


@pytest.mark.parametrize(("otherwise", "done"), [("deny", []), ("approve", [7])])
async def test_an_approval_that_nobody_gives_ends_by_itself(
    bench: Bench, otherwise: Otherwise, done: list[int]
) -> None:
    """By the agent's default, and Claude is told."""
    paid = list[int]()
    async with bench.worker(hurried(otherwise, paid)):
        run = await bench.start(uses(("pay", {"cents": 7})), says())
        result = await run.ended()
    assert (result.outcome, paid) == ("completed", done)
    assert ("Nobody answered" in run.requests[-1].body) == (not done)
    await run.replay()


async def test_an_update_that_comes_again_is_answered_again(bench: Bench) -> None:
    """The same update to the next workflow run of the chain: Temporal knows it there no more."""
    bench.history_events = 12
    paid = list[int]()
    async with bench.worker(app_of(payer(paid))):
        run = await bench.start(uses(("pay", {"cents": 1}), ("pay", {"cents": 2})), says())
        await waiting(run, 2)
        handle: Any = run.handle
        said = {"call": "1.1", "by": "ops"}
        first = await handle.execute_update("approve", said, id="once")
        await continued(run)
        again = await handle.execute_update("approve", said, id="once")
        assert again["summary"] == first["summary"] == "cents=1"
        assert "was approved by ops already" not in str(again)
        await say(run, "approve", "1.2")
        await run.ended()
    assert paid == [1, 2]


@pytest.mark.parametrize("update", ["send", "approve", "deny", "resolve", "limit"])
async def test_data_that_is_none_is_refused_with_an_example(bench: Bench, update: str) -> None:
    """Whoever types in the Temporal UI is told what is expected, and nothing is held up."""
    async with bench.worker(app_of(weigh)):
        run = await bench.start(says("Done.", delay_s=2.0))
        handle: Any = run.handle
        for data in ([], ["3.1"]):
            with pytest.raises(WorkflowUpdateFailedError) as told:
                await handle.execute_update(update, args=data)
            assert 'expected data like {"' in str(told.value.cause)
        assert (await run.ended()).outcome == "completed"
