"""Histories of earlier releases replay for ever: a deploy must not break a running run.

To record one with the present code: `ONWARD_RECORD=NAME pytest tests/test_recorded_histories.py`.
"""

import json
import os
import re
from pathlib import Path

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from people import say, waiting
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from onward import tool
from onward.local_services import redis_server
from onward.names import WORKFLOW
from onward.testing import wait_until
from workflows.agent import AgentWorkflow

FOLDER = Path(__file__).parent / "histories"
RECORDED = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.json"))}


@pytest.mark.replay
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str) -> None:
    """The present code makes the same commands as the code that made the history."""
    history = WorkflowHistory.from_json(name, RECORDED[name])
    replayer = Replayer(workflows=[AgentWorkflow], data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)


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
async def test_record_a_history(bench: Bench) -> None:
    """One run with reads, effects, a refusal, doubts, people who decide, a wipe and its refill."""
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
            await say(run, "approve", "3.1")
            await say(run, "deny", "3.2", why="too much")
            for call in ("3.1", "3.3"):
                await doubted(run, call)
                await say(run, "resolve", call, outcome="done", note="seen")
            await wait_until(lambda: len(run.requests) > 3, 30, what="the fourth request")
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            await run.ended()
    history = json.loads((await run.history()).to_json())
    # Where it was recorded is nobody's business and changes nothing.
    private = r'"(identity|stackTrace|workerInstanceKey)": "(?:[^"\\]|\\.)*"'
    text = re.sub(private, r'"\1": ""', json.dumps(history, indent=1))
    assert WORKFLOW in text
    (FOLDER / f"{os.environ['ONWARD_RECORD']}.json").write_text(text)
