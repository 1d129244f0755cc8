"""A run that continued as new is one run to everybody who asks, with or without a worker."""

import uuid
from datetime import datetime
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, says, uses
from forked import fork, found
from people import say, waiting
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from onward import history, tool
from onward.errors import UsageError
from onward.history import RunKey
from onward.messages import RunRequest
from onward.starting import Started, start
from onward.testing import wait_until

EVERY_STEP = 12
"""Events after which a run has done one step, and continues as new."""


@tool(effect="keyed", ask=lambda call: call["cents"] > 50)
async def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


async def chained(bench: Bench) -> Run:
    """Run to the end in several workflow runs; in the first ones a person has a word."""
    bench.history_events = EVERY_STEP
    async with bench.worker(app_of(refund, look)):
        run = await bench.start(
            uses(("refund", {"cents": 5}), ("refund", {"cents": 60}), ("refund", {"cents": 70})),
            uses(("look", {})),
            uses(("refund", {"cents": 6})),
            says("All done."),
        )
        await waiting(run, 2)
        await say(run, "deny", "1.3", why="too much")
        await say(run, "approve", "1.2")
        await run.ended()
    return run


def rows(document: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Outcome by call, and whether it is known when it ended."""
    return {row["call"]: (row["outcome"], bool(row["ended_at"])) for row in document["effects"]}


def forget(monkeypatch: pytest.MonkeyPatch, *run_ids: str) -> None:
    """Answer as Temporal does after the retention; deleting for real takes it half a minute."""
    start_of = history.start_of

    async def start_if_kept(client: Client, key: RunKey) -> Any:
        if key.run_id in run_ids:
            raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
        return await start_of(client, key)

    monkeypatch.setattr(history, "start_of", start_if_kept)


async def test_an_audit_tells_the_whole_chain(bench: Bench, cli: Cli) -> None:
    """Who decided and when is read from every workflow run, and ledger and history agree."""
    run = await chained(bench)
    assert len(await run.chain()) > 2
    ran = await cli("audit", run.name, "--verify", "--all", "--json")
    assert (ran.code, ran.json["verified"], ran.json["unknown"]) == (0, True, [])
    assert rows(ran.json) == {
        "1.1": ("done", True),
        "1.2": ("done", True),
        "1.3": ("denied", False),
        "2.1": ("done", True),
        "3.1": ("done", True),
    }
    decided = [each["what"] for row in ran.json["effects"] for each in row["decisions"]]
    assert decided == ["approved", "denied"]
    seen = {row["call"]: row["attempts"] for row in ran.json["effects"]}
    assert (seen["1.1"], seen["2.1"]) == (1, None)


async def test_a_forgotten_link_takes_away_only_who_and_when(
    bench: Bench, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention passes over the first workflow runs: segments tell how their calls ended."""
    run = await chained(bench)
    first, second = [link.run_id for link in await run.chain()][:2]
    forget(monkeypatch, first, second)
    ran = await cli("audit", run.name, "--verify", "--json")
    assert (ran.code, ran.json["verified"]) == (0, True)
    assert rows(ran.json) == {
        "1.1": ("done", False),
        "1.2": ("done", False),
        "1.3": ("not run", False),
        "3.1": ("done", True),
    }
    assert f"no longer keeps workflow run {second}" in ran.json["unknown"][-1]
    denied = next(row for row in ran.json["effects"] if row["call"] == "1.3")
    assert denied["why"] == "A person denied this call. too much"


async def test_what_a_run_costs_is_told_without_a_worker(bench: Bench, cli: Cli) -> None:
    """Steps and spend of all workflow runs count, told by the newest one's start (C18)."""
    bench.history_events = EVERY_STEP
    async with bench.worker(app_of(refund, look)):
        run = await bench.start(
            uses(("look", {})), uses(("look", {})), uses(("refund", {"cents": 60})), says()
        )
        await waiting(run)
        live = await cli("spend", run.name, "--json")
        full = (await cli("status", run.name, "--json")).json["context"]
    assert len(await run.chain()) > 1
    ran = await cli("spend", run.name, "--json")
    status = await cli("status", run.name, "--json")
    assert ran.json["requests"] == live.json["requests"] == 3
    assert ran.json["cost_usd"] == live.json["cost_usd"]
    assert (status.json["step"], status.json["limits"]["max_steps"]) == ("3", 100)
    assert status.json["context"] == full
    await run.handle.terminate("nobody decides")
    ended = await cli("result", run.name, "--json")
    assert (ended.json["steps"], ended.json["spend"]["requests"]) == (3, 3)


async def test_asked_again_a_long_run_is_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id stands for one job, also when what it was asked for is in no history any more (C02)."""
    name, bench.history_events = f"run-{uuid.uuid4().hex[:12]}", EVERY_STEP
    bench.api.scripts[name] = bench.script(*[uses(("look", {}))] * 3, says())
    async with bench.worker(app_of(look)):
        first = await asked(bench, name)
        await bench.temporal.get_workflow_handle(name).result()
    for forgotten in (False, True):
        if forgotten:
            forget(monkeypatch, first.run.first_run_id)
        assert (await asked(bench, name)).how == "ended"
        with pytest.raises(UsageError, match=r"is that of another job"):
            await asked(bench, name, "Stop")


async def asked(bench: Bench, name: str, what: str = "Go") -> Started:
    """Ask for a run of that id."""
    request = RunRequest(prompt=f"{what}. [script:{name}]", agent="tester")
    return await start(
        bench.temporal, name, request, task_queue=bench.queue, before_new=_there_is_room
    )


async def _there_is_room() -> None:
    """Let any run begin."""


async def test_a_long_run_began_when_its_first_workflow_run_did(bench: Bench, cli: Cli) -> None:
    """Start, time and place in the list are the run's, and the ended run's context is kept."""
    name, bench.history_events = f"run-{uuid.uuid4().hex[:12]}", EVERY_STEP
    bench.api.scripts[name] = bench.script(*[uses(("look", {}))] * 2, says(delay_s=1))
    async with bench.worker(app_of(look)):
        began = (await asked(bench, name)).run
        await bench.temporal.get_workflow_handle(name).result()
    seen = (await cli("status", name, "--json")).json
    (listed,) = await wait_until(lambda: rows_of(cli, name, "completed"), 20, what="the list")
    assert seen["run_id"] != began.run_id
    assert listed["started"] == seen["started"]
    apart = began.started - datetime.fromisoformat(seen["started"])
    took = datetime.fromisoformat(seen["closed"]) - datetime.fromisoformat(seen["started"])
    assert abs(apart.total_seconds()) < 1 < took.total_seconds()
    assert seen["context"]["tokens"] > 0


async def test_a_list_marks_what_was_reset(bench: Bench, cli: Cli) -> None:
    """Two runs of one id stand there after a reset: it is said which one goes on."""
    async with bench.worker(app_of(look)):
        name = f"run-{uuid.uuid4().hex[:12]}"
        bench.api.scripts[name] = bench.script(uses(("look", {})), says())
        began = (await asked(bench, name)).run
        other = await bench.start(says())
        await other.ended()
        run = found(bench, name)
        await run.ended()
        again = await run.reset_to_task(2)
        await again.ended()
        new, old = await wait_until(lambda: rows_of(cli, name, "completed", 2), 20, what="both")
    assert (new["run_id"], new["reset"]) == ((await again.handle.describe()).run_id, False)
    assert (old["run_id"], old["reset"]) == (began.run_id, True)
    states = [line.split("\t")[1] for line in await lines_of(cli, name)]
    assert sorted(states) == ["completed", "reset"]
    assert [line.split("\t")[1] for line in await lines_of(cli, other.name)] == ["completed"]


async def rows_of(cli: Cli, name: str, status: str, number: int = 1) -> list[dict[str, Any]]:
    """Rows of a run in `list --json`, once there are as many of that status; newest first."""
    listed = (await cli("list", "--json", "--limit", "100")).json["runs"]
    found = [row for row in listed if row["run"] == name]
    all_there = [row["temporal_status"].lower() for row in found] == [status] * number
    return found if all_there else []


async def lines_of(cli: Cli, name: str) -> list[str]:
    """Lines of a run in `list`."""
    lines = (await cli("list", "--limit", "100")).out.splitlines()
    return [line for line in lines if line.startswith(name)]


async def test_an_audit_of_a_fork_shows_its_parent(bench: Bench, cli: Cli) -> None:
    """What was copied is the other run's doing: it is not counted here, and it is said whose."""
    parent = await bench.run(app_of(refund, look), uses(("refund", {"cents": 5})), says())
    bench.history_events = EVERY_STEP
    async with bench.worker(app_of(refund, look)):
        more = [uses(("refund", {"cents": cents})) for cents in (6, 7)]
        run = await fork(cli, parent, "--message", "Two more.", then=[*more, says()])
        await run.ended()
    assert len(await run.chain()) > 1
    ran = await cli("audit", run.name, "--verify", "--json")
    assert (ran.code, ran.json["verified"]) == (0, True)
    assert rows(ran.json) == {"3.1": ("done", True), "4.1": ("done", True)}
    assert (ran.json["parent"]["workflow_id"], ran.json["copied_steps"]) == (parent.name, 2)
    shown = await cli("audit", run.name)
    assert f"copied: 2 steps of run {parent.name}" in shown.out
    with pytest.raises(UsageError, match=r"your origin: 'a run of its own'"):
        await asked(bench, run.name)


async def test_a_transcript_of_a_fork_names_its_parent(bench: Bench, cli: Cli) -> None:
    """What Onward told Claude of the parent is no person's word; the outcome is the run's own."""
    asks = [uses(("refund", {"cents": cents})) for cents in (5, 6)]
    parent = await bench.run(app_of(refund), *asks, says())
    async with bench.worker(app_of(refund)):
        typed = ("--step", "1", "--yes", "--max-steps", "1", "--message", "Differently.")
        run = await fork(cli, parent, *typed, then=[uses(("refund", {"cents": 7})), says()])
        assert (await run.ended()).outcome == "limit_steps"
    lines = [line.strip() for line in (await cli("transcript", run.name)).out.splitlines()]
    assert ", 2 steps, limit_steps; the first 1 step copied from run " in lines[0]
    assert lines[0].endswith(f"run {parent.name} ({parent.handle.first_execution_run_id})")
    assert lines[lines.index("Differently.") - 1] == "person"
    notice = lines.index("Onward") + 1
    assert lines[notice].startswith("This conversation goes on from here as a copy")
