"""Calls that wait for a person, as the person sees them on the command line."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from agent_double import Cli
from agent_runs import Bench, Run, app_of, says, uses
from people import waiting
from temporalio.client import Client

from onward import tool
from onward.local_services import TemporalServer
from onward.search_attributes import register
from onward.testing import wait_until


@tool(effect="keyed", ask="always")
async def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@tool(irreversible=True)
async def send(to: str) -> str:
    """Send."""
    raise httpx2.ReadTimeout(f"no answer from {to}")


@pytest_asyncio.fixture(loop_scope="session")
async def run(bench: Bench) -> AsyncGenerator[Run]:
    """A run that first waits for an approval, then for a doubt to be settled."""
    async with bench.worker(app_of(refund, send), search_attributes=True):
        begun = await bench.start(uses(("refund", {"cents": 5}), ("send", {"to": "first"})), says())
        await waiting(begun)
        yield begun


async def listed(cli: Cli, run: Run) -> list[dict[str, Any]]:
    """What `list --waiting` says of the run; Temporal's index is a little behind."""
    mine: list[dict[str, Any]] = []

    async def found() -> bool:
        waiting = (await cli("list", "--waiting", "--json")).json["waiting"]
        mine[:] = [call for call in waiting if call["run"] == run.name]
        return bool(mine)

    await wait_until(found, 20, what="the run among those that wait")
    return mine


async def table_has(cli: Cli, text: str) -> bool:
    return text in (await cli("list", "--waiting")).out


async def test_a_person_sees_what_waits_and_decides(cli: Cli, run: Run) -> None:
    """`status` and `list --waiting` show it, `--wait` ends with 8, each decision is confirmed."""
    shown = await cli("status", run.name)
    assert f"`onward approve {run.name} 1.1`" in shown.out
    assert 'input of 1.1   {"cents":5}' in shown.out
    assert "step           1" in shown.out
    assert "waiting (approval)" in shown.out
    asked = await cli("result", run.name)
    assert (asked.code, f"approve {run.name} 1.1" in asked.err) == (8, True)
    waited = await cli("result", run.name, "--wait")
    assert (waited.code, "this tool always asks first" in waited.err) == (8, True)
    assert f"whole input: `onward status {run.name}`" in waited.err
    mine = await listed(cli, run)
    assert [(call["call"], call["kind"]) for call in mine] == [("1.1", "approval")]

    approved = await cli("approve", run.name, "1.1", "--view", mine[0]["view"])
    assert (approved.code, approved.err.splitlines()[-1]) == (0, "1.1 refund (cents=5) may run")
    await waiting(run)
    assert "in doubt" in (await cli("status", run.name)).out
    await wait_until(lambda: table_has(cli, "1.2\tdoubt"), 20, what="the doubt in the table")

    settled = await cli("resolve", run.name, "1.2", "done", "--note", "seen", "--json")
    document = settled.json
    assert (settled.code, document["verdict"], document["note"]) == (0, "done", "seen")
    assert "@" in document["by"]
    assert (await cli("result", run.name, "--wait")).code == 0
    late = await cli("deny", run.name, "1.1")
    assert (late.code, "has ended (completed)" in late.err) == (2, True)


async def test_what_cannot_be_said_is_refused_clearly(cli: Cli, run: Run) -> None:
    """Another call, a stale view, a wrong word: exit 2 and a sentence, and the call still waits."""
    other = await cli("approve", run.name, "7.1")
    assert (other.code, "waiting: 1.1 (approval)" in other.err) == (2, True)
    assert f"`onward audit {run.name}` shows who decided" in other.err
    stale = await cli("deny", run.name, "1.1", "--view", "elsewhere")
    assert (stale.code, "not what you saw" in stale.err) == (2, True)
    wrong = await cli("resolve", run.name, "1.1", "done")
    assert (wrong.code, "error: call 1.1 waits for an approval" in wrong.err) == (2, True)
    assert "approve it or deny it" in wrong.err
    assert (await cli("resolve", run.name, "1.1", "perhaps")).code == 2
    assert (await cli("approve", "no-such-run", "1.1")).code == 4
    assert len(await waiting(run)) == 1
    denied = await cli("deny", run.name, "1.1", "--why", "no")
    assert (denied.code, "will not run" in denied.err) == (0, True)


async def test_nothing_is_said_to_a_run_without_a_worker(cli: Cli, bench: Bench) -> None:
    """Nobody would hear it: the command says so instead of waiting, and exits with 3."""
    begun = await bench.start(says())
    ran = await cli("approve", begun.name, "1.1")
    assert (ran.code, "Start `onward-worker`" in ran.err) == (3, True)
    await begun.handle.terminate()


async def test_a_run_that_waits_without_its_worker_is_shown(
    cli: Cli, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could be asked, which is not "nothing waits": the run is named, and the exit is 3."""
    monkeypatch.setattr("onward.reports.QUERY_TIMEOUT", timedelta(seconds=0.5))
    async with bench.worker(app_of(refund), search_attributes=True):
        begun = await bench.start(uses(("refund", {"cents": 5})), says())
        await waiting(begun)
    row = f"{begun.name}\t\tapproval\t\t\tits worker does not answer"
    await wait_until(lambda: table_has(cli, row), 60, what="the run in the table")
    ran = await cli("list", "--waiting", "--json")
    assert (ran.code, begun.name in ran.json["unanswered"]) == (3, True)
    listed = (await cli("list", "--limit", "100")).out.splitlines()
    assert any(line.startswith(f"{begun.name}\twaiting (approval)\t") for line in listed)
    assert "waiting (approval)" in (await cli("status", begun.name)).out
    asked = await cli("result", begun.name)
    assert (asked.code, "waits for a person (approval)" in asked.err) == (8, True)
    await begun.handle.terminate()


async def test_the_search_attribute_says_that_a_run_waits(
    cli: Cli, bench: Bench, temporal: TemporalServer
) -> None:
    """Where the namespace has it, `OnwardWaiting` finds a run as long as it waits."""
    client = await Client.connect(temporal.address)
    assert await register(client)
    async with bench.worker(app_of(refund), search_attributes=True):
        begun = await bench.start(uses(("refund", {"cents": 5})), says())
        await waiting(begun)
        await listed(cli, begun)
        attributes = (await begun.handle.describe()).search_attributes
        assert attributes["OnwardWaiting"] == ["approval"]
        assert (await cli("approve", begun.name, "1.1")).code == 0
        await begun.ended()
    assert "OnwardWaiting" not in (await begun.handle.describe()).search_attributes
