"""`onward audit` after a loss or a reset: what is no longer known is named, the rest told."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, connected, says, uses
from audited import by_call, refund
from people import say, waiting
from redis import Redis as BlockingRedis

from onward import tool
from onward.local_services import RedisServer
from onward.testing.messages_api import Step


@tool(effect="keyed")
async def copy_out(name: str) -> str:
    """Copy out."""
    return name * 100_000


async def test_what_only_one_side_knows_is_told(cli: Cli, bench: Bench, redis_url: str) -> None:
    """An end that the ledger was not told, a result that it lost, a call that history never had."""
    begun: list[Run] = []

    @tool(effect="keyed")
    def unheard() -> str:
        """Act, while another branch's record takes the place of this call's."""
        with BlockingRedis.from_url(redis_url) as redis:  # pyright: ignore[reportUnknownMemberType]
            key, other = bench.ledger(begun[0]).key, {"fp": "0" * 64}
            mine: Any = redis.hget(key, "s:1.1")
            redis.hset(key, "s:1.1", json.dumps(json.loads(mine) | other))
        return "done"

    @tool(effect="keyed")
    async def long() -> str:
        """Return more than a record holds."""
        return "x" * 70_000

    async with bench.worker(app_of(unheard, long, refund)):
        calls = uses(("unheard", {}), ("long", {}), ("refund", {"cents": 5}), delay_s=0.2)
        begun.append(run := await bench.start(calls, says()))
        await run.ended()
    redis: Any = bench.redis
    key = bench.ledger(run).key
    kept_apart = [f"{key}:{name.decode()}" for name in await redis.hkeys(key)]
    assert await redis.delete(*kept_apart) > 0
    await redis.hset(key, "s:7.1", await redis.hget(key, "s:1.3"))
    ran = await cli("audit", run.name, "--verify", "--json")
    found = {(each["position"], each["what"]) for each in ran.json["differences"]}
    assert found >= {("1.2", "record"), ("7.1", "state")}
    rows = by_call(ran.json)
    assert (rows["1.1"]["recorded"], rows["1.1"]["outcome"]) == (False, "done")
    assert (rows["7.1"]["known_by"], rows["7.1"]["outcome"]) == (["ledger"], "done")
    shown = (await cli("audit", run.name)).out
    assert "the ledger could not be told of its end" in shown
    assert "only the ledger knows it" in shown


async def test_a_rebuilt_ledger_agrees_but_has_forgotten(
    cli: Cli, bench: Bench, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a wipe and a refill the records agree with history, and it is said what they lack."""
    monkeypatch.setenv("ONWARD_REDIS_URL", own_redis.url)
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(refund)):
            calls = (uses(("refund", {"cents": 5})), uses(("refund", {"cents": 60})), says())
            run = await bench.start(*calls)
            await waiting(run)
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            await say(run, "approve", "2.1")
            await run.ended()
    ran = await cli("audit", run.name, "--verify", "--json")
    first, second = ran.json["effects"]
    assert (ran.code, ran.json["verified"]) == (0, True)
    assert (first["claims"], second["claims"]) == (None, 1)
    assert "lost this run's records at least once" in ran.json["unknown"][0]
    assert "not known of: 1.1" in ran.json["unknown"][1]


async def test_a_reset_run_tells_both_branches(cli: Cli, bench: Bench) -> None:
    """What people had said before is in the new history too; what is not, is said."""
    async with bench.worker(app_of(refund)):
        run = await bench.start(uses(("refund", {"cents": 60})), says())
        await waiting(run)
        await say(run, "approve", "1.1")
        await run.ended()
        again = await run.reset_to_task(3)
        await again.ended()
    assert "workflow_execution_update_admitted_event_attributes" in {
        event.WhichOneof("attributes") for event in (await again.history()).events
    }
    ran = await cli("audit", run.name, "--verify", "--json")
    (row,) = ran.json["effects"]
    assert (ran.code, row["outcome"], row["claims"]) == (0, "done", 1)
    assert [each["by_as_claimed"] for each in row["decisions"]] == ["operator@desk"]
    assert f"what run {run.handle.first_execution_run_id} did" in ran.json["unknown"][-1]


async def test_what_a_reset_cut_off_is_no_difference(cli: Cli, bench: Bench) -> None:
    """The run ended before it came there again: ledger and history agree, and it is named."""
    async with bench.worker(app_of(refund)):
        asks = [uses(("refund", {"cents": cents})) for cents in (60, 5)]
        run = await bench.start(*asks, says())
        await waiting(run)
        await say(run, "approve", "1.1")
        await run.ended()
        again = await run.reset_to_task(0)
        await waiting(again)
        await again.handle.signal("cancel")
        assert (await again.ended()).outcome == "cancelled"
    ran = await cli("audit", run.name, "--verify", "--json")
    assert (ran.code, ran.json["verified"], ran.json["differences"]) == (0, True, [])
    assert by_call(ran.json)["2.1"]["known_by"] == ["ledger"]
    assert ran.json["unknown"][-1].endswith("only what Redis holds is shown: 2.1.")


async def test_a_payload_that_is_gone_hides_no_more_than_it_must(
    cli: Cli, bench: Bench, tmp_path: Path
) -> None:
    """What it said is not known, and named; the rest is told, with the ledger and without.

    Nothing differs: that cannot be known, and has an exit code of its own.
    """
    asks = uses(("copy_out", {"name": "x"}), ("refund", {"cents": 5}), ("refund", {"cents": 13}))
    run = await bench.run(app_of(copy_out, refund), asks, says())
    shutil.rmtree(tmp_path / "payloads")
    ran = await cli("audit", run.name, "--verify", "--json")
    assert (ran.code, ran.json["verified"], ran.json["differences"]) == (3, None, [])
    assert outcomes(ran.json) == {"1.1": "done", "1.2": "done", "1.3": "failed"}
    redis: Any = bench.redis
    await redis.delete(bench.ledger(run).key)
    wiped = await cli("audit", run.name, "--json")
    assert outcomes(wiped.json) == {"1.1": "not known", "1.2": "done", "1.3": "failed"}
    assert "cannot read payload " in wiped.json["unknown"][-1]
    assert "not known: A part of history is gone" in (await cli("audit", run.name)).out


async def test_calls_of_a_reply_that_is_gone_are_told_by_their_activities(
    cli: Cli, bench: Bench, tmp_path: Path
) -> None:
    """Claude's words were too long for history; what was done on them stands in it all the same."""
    words = {"type": "text", "text": "word " * 20_000}
    asks = {"type": "tool_use", "name": "refund", "input": {"cents": 5}}
    run = await bench.run(app_of(refund), Step(content=[words, asks]), says())
    shutil.rmtree(tmp_path / "payloads")
    redis: Any = bench.redis
    await redis.delete(bench.ledger(run).key)
    ran = await cli("audit", run.name, "--json")
    (row,) = ran.json["effects"]
    assert (ran.code, row["call"], row["tool"], row["outcome"]) == (0, "1.1", "refund", "done")


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {call: row["outcome"] for call, row in by_call(document).items()}
