"""What people found broken around approvals: held processes, steps done again, answers lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, app_of, connected, says, uses
from people import waiting
from temporalio.client import Client

from onward import tool
from onward.local_services import redis_server, temporal_server
from onward.payload_store import data_converter
from onward.testing.messages_api import ScriptedAPI


@pytest.mark.crash
@pytest.mark.field("E06")
async def test_an_approval_outlives_every_process(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker, Redis and Temporal are killed while a run waits; nothing before the wait is repeated.

    Each decision counts once: what comes twice, is about no call, or comes after a cancel, is
    refused in words.
    """
    done = list[str]()

    @tool(effect="keyed", ask=lambda call: call["to"] != "first")
    async def pay(to: str) -> str:
        """Pay."""
        done.append(to)
        return f"paid {to}"

    app, calls = app_of(pay), uses(*(("pay", {"to": to}) for to in ("first", "a", "b")))
    async with (
        temporal_server(tmp_path, ui=False) as temporal,
        redis_server(tmp_path) as redis,
        ScriptedAPI({}) as api,
        connected(redis.url) as ledger,
    ):
        store = data_converter(tmp_path / "payloads")
        bench = Bench(await Client.connect(temporal.address, data_converter=store), ledger, api)
        monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
        monkeypatch.setenv("ONWARD_REDIS_URL", redis.url)
        monkeypatch.setenv("ONWARD_TASK_QUEUE", bench.queue)
        async with bench.worker(app):
            run, other = await bench.start(calls, says()), await bench.start(calls, says())
            for each in (run, other):
                await waiting(each, 2)
        for server in (redis, temporal):
            await server.kill()
            await server.start()
        async with bench.worker(app):
            await waiting(run, 2)
            answers = [
                await cli(*typed)
                for typed in (
                    ("approve", run.name, "9.9"),
                    ("approve", run.name, "1.2"),
                    ("approve", run.name, "1.2"),
                    ("deny", run.name, "1.3", "--why", "not today"),
                )
            ]
            assert (await run.ended()).outcome == "completed"
            await other.handle.signal("cancel")
            assert (await other.ended()).outcome == "cancelled"
            late = await cli("approve", other.name, "1.2")
    assert [answer.code for answer in (*answers, late)] == [2, 0, 2, 0, 2]
    assert "does not wait for a person; waiting: 1.2 (approval), 1.3 (approval)" in answers[0].err
    assert "does not wait" in answers[2].err
    assert "has ended (cancelled" in late.err
    assert sorted(done) == ["a", "first", "first"]  # of two runs
    assert (len(run.requests), len(other.requests)) == (2, 1)
    results: list[dict[str, Any]] = json.loads(run.requests[-1].body)["messages"][-1]["content"]
    assert [block.get("is_error", False) for block in results] == [False, False, True]
    assert "A person denied this call. not today" in json.dumps(results[2])
