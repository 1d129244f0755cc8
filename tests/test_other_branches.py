"""What another branch of a run left in the ledger, after a wipe, is not taken for history's."""

import asyncio
import json
from typing import Any

from agent_runs import Bench, Run, app_of, says, uses
from test_field_conversation import results_in

from onward import Agent, tool
from onward.identity import fingerprint
from onward.messages import ClaudeReply, Head, Witness
from onward.testing import wait_until
from onward.testing.messages_api import Fault

OTHER_FP = "f" * 64


async def rewrite(bench: Bench, run: Run, step: str, **fields: Any) -> None:
    """Change a record as a zombie of another branch would have written it."""
    key, field = bench.ledger(run).key, f"s:{step}"
    redis: Any = bench.redis
    record: dict[str, Any] = json.loads(await redis.hget(key, field)) | fields
    await redis.hset(key, field, json.dumps(record))


async def test_no_call_is_fired_with_the_input_of_another_reply(bench: Bench) -> None:
    """The input comes from the ledger; one that is not the fingerprint's is a gap, and refilled."""
    runs: list[Run] = []
    fired: list[str] = []
    loop = asyncio.get_running_loop()

    async def another_reply() -> None:
        reply = (await bench.ledger(runs[0]).records("1")).records["1"].result
        theirs = json.loads(reply.replace("right", "wrong"))
        theirs["calls"][1]["fingerprint"] = fingerprint("act", '{"x":"wrong"}')
        await rewrite(bench, runs[0], "1", res=json.dumps(theirs))

    @tool(effect="read")
    def zombie() -> str:
        """Let the other branch write its reply."""
        asyncio.run_coroutine_threadsafe(another_reply(), loop).result()
        return "written"

    @tool(effect="keyed")
    async def act(x: str) -> str:
        """Act."""
        fired.append(x)
        return "done"

    async with bench.worker(app_of(zombie, act)):
        runs.append(await bench.start(uses(("zombie", {}), ("act", {"x": "right"})), says()))
        await runs[0].ended()
    assert fired == ["right"]


async def test_no_call_is_answered_with_the_result_of_another(bench: Bench) -> None:
    """A result of another fingerprint at the call's position is a gap, and refilled."""
    runs: list[Run] = []
    loop = asyncio.get_running_loop()
    theirs = json.dumps({"status": "done", "content": '"of another branch"'})

    @tool(effect="keyed")
    def act() -> str:
        """Act, while the other branch writes its result."""
        writing = rewrite(bench, runs[0], "1.1", fp=OTHER_FP, st="done", res=theirs)
        asyncio.run_coroutine_threadsafe(writing, loop).result()
        return "mine"

    async with bench.worker(app_of(act)):
        runs.append(await bench.start(uses(("act", {})), says()))
        await runs[0].ended()
    assert results_in(runs[0])[0]["content"] == "mine"


async def test_a_reply_that_came_second_is_paid_for_and_counted(bench: Bench) -> None:
    """Another branch recorded the step meanwhile: it is asked anew, and both requests count."""
    reply = ClaudeReply(
        message="{}",
        stop_reason="end_turn",
        head=Head(step="1", digest="d"),
        prev="0",
        witness=Witness(nonce="", inc="", run_id=""),
    )
    async with bench.worker(app_of()):
        run = await bench.start(says(delay_s=1.5), says())
        await wait_until(lambda: run.requests, 20, what="the request")
        theirs = {"fp": OTHER_FP, "st": "done", "res": reply.model_dump_json()}
        await rewrite(bench, run, "1", **theirs)
        result = await run.ended()
    assert (result.outcome, len(run.requests), result.spend.requests) == ("completed", 2, 2)


async def test_a_wipe_between_attempts_forgets_no_tokens(bench: Bench) -> None:
    """The next attempt finds a gap, and only its heartbeat knows what was sent before it."""
    fault = Fault(status=529, retry_after=2)
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[fault]))
        await wait_until(lambda: run.requests, 20, what="the request")
        await asyncio.sleep(0.7)
        await bench.redis.delete(bench.ledger(run).key)
        result = await run.ended()
    assert (len(run.requests), result.spend.requests) == (2, 2)


async def test_a_worker_without_the_agent_pays_for_nothing(bench: Bench) -> None:
    """A run waits for a worker of its release; it neither fails nor asks Claude in vain."""
    app = app_of()

    @tool(effect="read")
    async def act() -> str:
        """Take the agent away, as a worker of another release would."""
        app.agents.pop("tester")
        return "done"

    agent = Agent("tester", model="claude-sonnet-5-5", tools=[act])
    app.agents["tester"] = agent
    async with bench.worker(app):
        run = await bench.start(uses(("act", {})), says())
        await wait_until(lambda: not app.agents, 20, what="the tool")
        await asyncio.sleep(1)
        assert (len(run.requests), "no agent" in await run.failing_activity()) == (1, True)
        app.agents["tester"] = agent
        result = await run.ended()
    assert (result.outcome, len(run.requests)) == ("completed", 2)


async def test_a_turn_that_another_branch_froze_outlives_a_wipe(bench: Bench) -> None:
    """It was sent, so it stays as it was sent: history keeps it where additions make another."""
    runs: list[Run] = []
    loop = asyncio.get_running_loop()

    async def freeze() -> None:
        ledger = bench.ledger(runs[0])
        asked = (await ledger.records("1")).records["1"].result
        use = json.loads(asked)["calls"][0]["tool_use_id"]
        block = {"type": "tool_result", "tool_use_id": use, "content": "of another branch"}
        await ledger.restore({}, {"2": json.dumps({"content": json.dumps([block])})})

    @tool(effect="read")
    def zombie() -> str:
        """Let the other branch freeze the next turn."""
        asyncio.run_coroutine_threadsafe(freeze(), loop).result()
        return "mine"

    @tool(effect="read")
    def wipe() -> str:
        """Lose the ledger."""
        wiping: Any = bench.redis.delete(bench.ledger(runs[0]).key)
        asyncio.run_coroutine_threadsafe(wiping, loop).result()
        return "wiped"

    async with bench.worker(app_of(zombie, wipe)):
        runs.append(await bench.start(uses(("zombie", {})), uses(("wipe", {})), says()))
        result = await runs[0].ended()
    assert (result.outcome, result.spend.requests) == ("completed", 3)
