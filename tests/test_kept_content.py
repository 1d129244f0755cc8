"""Thinking goes back byte for byte, from wherever the conversation was kept meanwhile."""

from collections.abc import Sequence
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, connected, request_body, says
from crash_runs import CrashBench
from forked import fork
from message_kinds import KINDS

from onward import tool
from onward.local_services import RedisServer
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step
from onward.testing.messages_api.literal_json import canonical, parse

EVERY_STEP = 12
"""Events after which a run continues as new: it has done one step."""
THINKING = [
    {"type": "thinking", "thinking": "First this,  \n", "signature": "UzE="},
    {"type": "text", "text": "I look, twice. "},
    {"type": "thinking", "thinking": "", "signature": "UzI="},
]


@tool(effect="read")
def look(z: Any = None, a: Any = None) -> str:
    """Look."""
    return f"saw {z} {a}"


def replied(number: int, name: str = "look", **more: Any) -> Step:
    """Make a reply that thinks, speaks, thinks and calls twice."""
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}_{n}", "name": name, "input": {**more}}
        for n in range(2)
    ]
    return Step(content=[*THINKING, *calls])


def said(run: Run, request: int = -1) -> list[str]:
    """Claude's messages in a request, as they are compared: every block, in its order."""
    turns = parse(run.requests[request].body)["messages"]
    return [canonical(turn["content"]) for turn in turns if turn["role"] == "assistant"]


def sent(*steps: Step) -> list[str]:
    return [canonical(list(step.content)) for step in steps]


@pytest.mark.field("A09")
@pytest.mark.crash
async def test_thinking_survives_a_crash(crash_bench: CrashBench) -> None:
    """Killed in its next request, the run sends that request again, equal by hash."""
    first = replied(1, "look_up", order="o-1")
    async with crash_bench.worker() as worker:
        run = await crash_bench.bench.start(first, says(faults=[Fault(hold_s=60)]))
        await wait_until(lambda: len(run.requests) > 1, 30, what="the second request")
        await worker.kill()
    async with crash_bench.worker():
        assert (await run.ended()).outcome == "completed"
    assert len({entry.body_sha256 for entry in run.requests[1:]}) == 1
    assert said(run) == sent(first)


async def wiped(bench: Bench, steps: Sequence[Step]) -> Run:
    """Run these steps, and lose all that is in Redis on the way."""
    run = await bench.start(*steps, says())
    await wait_until(lambda: len(run.requests) > 2, 30, what="some steps")
    await bench.redis.flushall()  # pyright: ignore[reportUnknownMemberType]
    await run.ended()
    assert said(run) == sent(*steps)
    return run


@pytest.mark.field("A09")
@pytest.mark.replay
async def test_thinking_survives_all_that_can_be_lost(
    bench: Bench, own_redis: RedisServer, cli: Cli
) -> None:
    """Wiped Redis, new histories, a fork and its transcript: each holds the very same blocks."""
    bench.history_events = EVERY_STEP
    steps = [replied(n, z={"b": 1, "a": [None, "ü"]}, a=n) for n in range(4)]
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look)):
            run = await wiped(bench, steps)
            assert len(await run.chain()) > 2
            await run.replay()
            printed = await cli("transcript", run.name, "--json")
            forked = await fork(cli, run, "--message", "And now?", then=[says("No.")])
            await forked.ended()
    told = [turn for turn in printed.json["messages"] if turn["role"] == "assistant"]
    assert [canonical(turn["content"]) for turn in told][:4] == sent(*steps)
    assert said(run)[:4] == sent(*steps)


async def test_every_kind_of_content_is_carried_and_rebuilt(
    bench: Bench, own_redis: RedisServer
) -> None:
    """Each step in a new history, and once from nothing in Redis; Claude's container too."""
    bench.history_events = EVERY_STEP
    kinds = [content for content in KINDS.values() if _calls(content)]
    ran_in = {"container": {"id": "container_1"}}
    steps = [Step(content=_numbered(each, n), fields=ran_in) for n, each in enumerate(kinds)]
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look)):
            run = await wiped(bench, steps)
    named = {request_body(each).get("container") for each in run.requests[1:]}
    assert named == {"container_1"}


def _calls(content: list[dict[str, Any]]) -> bool:
    return any(block["type"] == "tool_use" for block in content)


def _numbered(content: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Give each call an id that no other step has."""
    return [
        block | {"id": f"{block['id']}_{number}"} if block["type"] == "tool_use" else block
        for block in content
    ]
