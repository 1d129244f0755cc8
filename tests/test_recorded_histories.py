"""Histories of earlier releases replay for ever: a deploy must not break a running run.

To record one with the present code: `ONWARD_RECORD=NAME pytest tests/test_recorded_histories.py`.
"""

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_runs import MODEL, SANDBOX, Bench, Run, app_of, connected, says, uses
from people import say, send, waiting
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from onward import Agent, App, WaitingNotice, tool
from onward.local_services import redis_server
from onward.messages import LimitChange
from onward.names import WORKFLOW
from onward.testing import wait_until
from onward.testing.messages_api import Step
from workflows.agent import AgentWorkflow

FOLDER = Path(__file__).parent / "histories"
RECORDED = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.json"))}


@pytest.mark.replay
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str) -> None:
    """The present code makes the same commands as the code that made the history."""
    await _replay(name)


async def _replay(name: str) -> None:
    history = WorkflowHistory.from_json(name, RECORDED[name])
    replayer = Replayer(
        workflows=[AgentWorkflow],
        data_converter=pydantic_data_converter,
        unsandboxed_workflow_runner=SANDBOX,
    )
    await replayer.replay_workflow(history)


@pytest.mark.field("C13")
@pytest.mark.replay
@pytest.mark.parametrize("name", RECORDED)
async def test_a_change_that_breaks_it_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An activity that was not there before fails the replay, so the test above can fail."""
    execute, extra = workflow.execute_activity, "extra"

    async def one_more(activity: str, *given: Any, **options: Any) -> Any:
        await execute(extra, start_to_close_timeout=timedelta(seconds=1))
        return await execute(activity, *given, **options)

    monkeypatch.setattr(workflow, "execute_activity", one_more)
    with pytest.raises(workflow.NondeterminismError):
        await _replay(name)


def test_there_is_a_history_to_replay() -> None:
    """An empty folder would let every change pass."""
    assert RECORDED


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect="keyed")
async def act() -> str:
    """Act."""
    return "acted"


@tool
async def fall() -> str:
    """Fail with an unknown outcome."""
    raise ValueError("nobody knows")


@tool(moves_money=True, ask=lambda call: call["cents"] > 50)
async def pay(cents: int) -> str:
    """Fail with an outcome that a person settles."""
    raise TimeoutError(f"no answer about {cents}")


async def doubted(run: Run, call: str) -> None:
    async def in_doubt() -> bool:
        return any((each.call, each.kind) == (call, "doubt") for each in await waiting(run))

    await wait_until(in_doubt, 30, what=f"the doubt about {call}")


@pytest.mark.skipif("ONWARD_RECORD" not in os.environ, reason="only to record a new history")
async def test_record_a_history_of_limits(bench: Bench) -> None:
    """A pause, a reply that was gone on with, one that was asked for again, a limit and its raise.

    It continues as new while it waits at the limit.
    """
    bench.history_events = 30
    steps = [
        Step(content=[{"type": "text", "text": "Wait."}], stop_reason="pause_turn"),
        says("Words. " * 50, needs_tokens=1500),
        uses(("look", {}), needs_tokens=1500),
        uses(("act", {})),
        uses(("look", {})),
    ]
    app = app_of(look, act, max_tokens=1200, at_limit="wait")
    async with bench.worker(app):
        run = await bench.start(*steps, says(), max_steps=4)
        await waiting(run)
        record("limit", await run.history())
        handle: Any = run.handle
        await handle.execute_update("limit", LimitChange(max_steps=9))
        await run.ended()
    for number, history in enumerate(await run.chain(), 1):
        record(f"limits-{number}", history)


@pytest.mark.skipif("ONWARD_RECORD" not in os.environ, reason="only to record a new history")
async def test_record_a_history_of_people(bench: Bench) -> None:
    """Messages, a pause, an edit, what is remembered, an approval that expires, a late cancel.

    It continues as new while it is paused, and its app is told what waits.
    """
    bench.history_events = 45

    async def told(notice: WaitingNotice) -> None:
        del notice

    @tool(effect="keyed", ask="always")
    async def book(seats: int) -> str:
        """Book."""
        return f"booked {seats}"

    steps = [
        uses(("book", {"seats": 1}), ("book", {"seats": 2})),
        uses(("book", {"seats": 3}), delay_s=1.0),
        uses(("act", {}), delay_s=1.0),
    ]
    tools: Any = {"tools": [book, act], "ask_timeout_s": 5.0}
    app = App(Agent("tester", model=MODEL, **tools), on_waiting=told)
    async with bench.worker(app, search_attributes=True):
        run = await bench.start(*steps, says())
        await waiting(run, 2)
        await say(run, "approve", "1.1", edit='{"seats": 4}')
        await send(run, "Hurry.", id="m1")
        await wait_until(lambda: len(run.requests) > 1, 30, what="the second request")
        await run.handle.signal("pause", {"reason": "lunch", "by": "ops"})
        await waiting(run)
        await say(run, "approve", "2.1", remember=True)
        for number in range(6):
            await send(run, f"word {number}", id=f"w{number}")
        await wait_until(lambda: _is_second(run), 30, what="the second workflow run")
        await run.handle.signal("resume")
        await wait_until(lambda: len(run.requests) > 2, 30, what="the third request")
        await run.handle.signal("cancel", {"after_step": True})
        await run.ended()
    for number, history in enumerate(await run.chain(), 1):
        record(f"people-{number}", history)


@pytest.mark.skipif("ONWARD_RECORD" not in os.environ, reason="only to record a new history")
async def test_record_a_history(bench: Bench) -> None:
    """One run with reads, effects, a refusal, doubts, people who decide, a wipe and its refill.

    It continues as new twice: once in the middle of a step, which waits for people. Recorded are
    the histories of its three workflow runs, and that of the second while it waits.
    """
    bench.history_events = 40
    steps = [
        uses(("look", {}), ("look", {}), ("act", {})),
        uses(("absent", {}), ("fall", {}), ("act", {})),
        uses(("pay", {"cents": 60}), ("pay", {"cents": 70}), ("pay", {"cents": 5})),
        uses(("act", {}), delay_s=0.5),
    ]
    async with redis_server(None) as server, connected(server.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look, act, fall, pay), search_attributes=True):
            run = await bench.start(*steps, says())
            await waiting(run, 2)
            await wait_until(lambda: _is_second(run), 30, what="the second workflow run")
            record("waiting", await run.history())
            await say(run, "approve", "3.1")
            await say(run, "deny", "3.2", why="too much")
            for call in ("3.1", "3.3"):
                await doubted(run, call)
                await say(run, "resolve", call, outcome="done", note="seen")
            await wait_until(lambda: len(run.requests) > 3, 30, what="the fourth request")
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            await run.ended()
    for number, history in enumerate(await run.chain(), start=1):
        record(str(number), history)


async def _is_second(run: Run) -> bool:
    return len(await run.chain()) > 1


def record(part: str, history: WorkflowHistory) -> None:
    # Where it was recorded is nobody's business and changes nothing.
    private = r'"(identity|stackTrace|workerInstanceKey)": "(?:[^"\\]|\\.)*"'
    text = re.sub(private, r'"\1": ""', json.dumps(json.loads(history.to_json()), indent=1))
    assert WORKFLOW in text
    (FOLDER / f"{os.environ['ONWARD_RECORD']}-{part}.json").write_text(text)
