"""Search attributes make runs easy to find; where they cannot be had, runs go on without."""

import asyncio
import shlex
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
import pytest_asyncio
from agent_double import Cli
from agent_runs import MODEL, Bench, app_of, connected, says, uses
from people import waiting
from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

import onward.starting
from activities.services import Services
from onward import tool
from onward.local_services.temporal import find_temporal
from onward.messages import Opening
from onward.names import AGENT, ATTRIBUTES, COST, STATUS, TAGS
from onward.names import MODEL as MODEL_ATTRIBUTE
from onward.payload_store import data_converter
from onward.search_attributes import Attributes, create_command, look, register, troubles, usable
from onward.testing import wait_until
from onward.testing.messages_api import ScriptedAPI

_FULL = [f"Double{number}=Double" for number in range(3)]
"""As many as the development server has room for."""
UNUSABLE = {STATUS, COST}


@tool(effect="keyed", ask="always")
async def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def awkward() -> AsyncGenerator[Client]:
    """A server where OnwardStatus is somebody else's, and no Double can be added."""
    options = [f"--search-attribute={each}" for each in (f"{STATUS}=Int", *_FULL)]
    async with await WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
        dev_server_existing_path=str(find_temporal()),
        dev_server_extra_args=options,
        dev_server_log_level="error",
    ) as server:
        yield server.client


@pytest_asyncio.fixture(loop_scope="session")
async def awkward_bench(
    awkward: Client, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncGenerator[Bench]:
    """Lay out a bench on that server."""
    address, payloads = awkward.service_client.config.target_host, tmp_path / "payloads"
    client = await Client.connect(address, data_converter=data_converter(payloads))
    async with ScriptedAPI({}) as api, connected(redis_url) as redis:
        bench = Bench(client, redis, api)
        monkeypatch.setenv("TEMPORAL_ADDRESS", address)
        monkeypatch.setenv("ONWARD_REDIS_URL", redis_url)
        monkeypatch.setenv("ONWARD_TASK_QUEUE", bench.queue)
        monkeypatch.setenv("ONWARD_PAYLOAD_DIR", str(payloads))
        yield bench


async def test_what_can_be_registered_is(awkward: Client) -> None:
    """A type without room hides no other; a name that is somebody else's is left alone."""
    found = await register(awkward)
    assert set(found.usable) == set(ATTRIBUTES) - UNUSABLE
    assert (found.missing, found.clashes) == ((COST,), (STATUS,))
    assert found == await register(awkward), "once more changes nothing"
    missing, clash = map(str, troubles(awkward, found))
    assert "cannot have more than 3 search attribute of type Double" in missing
    assert missing.endswith(f"--namespace default --name {COST} --type Double")
    assert f"{STATUS} is of type Int, expected was Keyword" in clash
    assert clash.endswith(f"--namespace default --name {STATUS}")


async def test_runs_work_with_what_there_is(awkward_bench: Bench, cli: Cli) -> None:
    """Neither start nor workflow sets another one; `list` knows all the same, `doctor` says it."""
    bench = awkward_bench
    await register(bench.temporal)
    bench.api.scripts["awkward"] = bench.script(uses(("refund", {"cents": 5})), says())
    async with bench.worker(app_of(refund), search_attributes=True):
        ran = await cli(
            *("start", "Go. [script:awkward]", "--agent", "tester"),
            *("--id", "awkward", "--tag", "order=1"),
        )
        assert ran.code == 0, ran.err
        await wait_until(lambda: _waits(cli), 20, what="the run among those that wait")
        assert (await cli("approve", "awkward", "1.1")).code == 0
        assert (await cli("result", "awkward", "--wait")).code == 0
        doctor = await cli("doctor")
    handle = bench.temporal.get_workflow_handle("awkward")
    attributes = (await handle.describe()).search_attributes
    assert (attributes[AGENT], attributes[TAGS]) == (["tester"], ["order=1"])
    assert (attributes[MODEL_ATTRIBUTE], UNUSABLE & set(attributes)) == ([MODEL], set())
    assert "expected was Keyword" in doctor.out
    assert f"lacks search attributes: {COST}" in doctor.out
    await wait_until(lambda: _is_listed(cli), 20, what="the run in the list")


async def _waits(cli: Cli) -> bool:
    found = (await cli("list", "--waiting", "--json")).json["waiting"]
    return [(each["run"], each["kind"]) for each in found] == [("awkward", "approval")]


async def _is_listed(cli: Cli) -> bool:
    asked = ("--agent", "tester", "--tag", "order=1", "--status", "completed")
    return [row["run"] for row in (await cli("list", *asked, "--json")).json["runs"]] == ["awkward"]


async def test_a_start_is_never_refused_for_an_attribute(
    awkward_bench: Bench, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was removed since somebody looked costs the run that attribute, not its start."""

    async def known_before(_: Client) -> tuple[str, ...]:
        return tuple(ATTRIBUTES)

    monkeypatch.setattr(onward.starting, "usable", known_before)
    bench = awkward_bench
    bench.api.scripts["late"] = bench.script(says())
    async with bench.worker(app_of(), search_attributes=True):
        ran = await cli("start", "Go. [script:late]", "--agent", "tester", "--id", "late")
        assert ran.code == 0, ran.err
        assert (await cli("result", "late", "--wait")).code == 0


async def test_the_printed_command_registers_them(awkward: Client) -> None:
    """Whoever may register attributes copies one line, and they are there."""
    name = "OnwardModel"
    await register(awkward)
    await _remove(awkward, name)
    assert (await look(awkward)).missing == (name, COST)
    command = shlex.split(create_command(awkward, [name]))
    ran = await asyncio.to_thread(
        subprocess.run, [str(find_temporal()), *command[1:]], capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert name in await usable(awkward)


def test_temporal_cloud_has_a_command_of_its_own() -> None:
    """There no client may register attributes, whatever its account."""

    class Config:
        target_host = "prod.a1b2c.tmprl.cloud:7233"

    class Cloud:
        namespace = "prod.a1b2c"
        service_client = type("Service", (), {"config": Config})

    client: Any = Cloud()
    assert create_command(client, [AGENT, TAGS]) == (
        "tcld namespace search-attributes add --namespace prod.a1b2c "
        f"--search-attribute {AGENT}=Keyword --search-attribute {TAGS}=KeywordList"
    )


async def test_an_account_that_may_not_look_does_without(
    awkward_bench: Bench, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker, runs, `list` and `doctor` work; the worker prints what somebody who may can type."""

    async def refused(*_: Any, **__: Any) -> Any:
        raise RPCError("not yours", RPCStatusCode.PERMISSION_DENIED, b"")

    service = type(awkward_bench.temporal.operator_service)
    for call in ("list_search_attributes", "add_search_attributes"):
        monkeypatch.setattr(service, call, refused)
    found = await register(awkward_bench.temporal)
    assert (found, found.usable) == (Attributes(refusal="not yours"), ())
    (said,) = map(str, troubles(awkward_bench.temporal, found))
    assert "(not yours)" in said
    assert all(f"--name {name} --type {kind}" in said for name, kind in ATTRIBUTES.items())
    bench = awkward_bench
    bench.api.scripts["alone"] = bench.script(says())
    async with bench.worker(app_of(), search_attributes=True):
        ran = await cli("start", "Go. [script:alone]", "--agent", "tester", "--id", "alone")
        assert ran.code == 0, ran.err
        assert (await cli("result", "alone", "--wait")).code == 0
    attributes = (await bench.temporal.get_workflow_handle("alone").describe()).search_attributes
    assert not set(attributes) & set(ATTRIBUTES)
    assert "cannot be read, so runs set none: not yours" in (await cli("doctor")).out


async def test_a_removed_attribute_holds_a_run_up_until_it_is_back(
    awkward_bench: Bench, cli: Cli
) -> None:
    """`doctor` says what to do, and the run goes on by itself: nothing is done again."""
    bench = awkward_bench
    await register(bench.temporal)
    async with bench.worker(app_of(refund), search_attributes=True):
        run = await bench.start(uses(("refund", {"cents": 5})), says())
        await waiting(run)
        await _remove(bench.temporal, "OnwardStep")
        assert (await cli("approve", run.name, "1.1")).code == 0
        said = await wait_until(lambda: _held_up(cli, run.name), 20, what="its trouble")
        assert said is not None
        assert "lacks search attributes: OnwardStep" in (await cli("doctor")).out
        await register(bench.temporal)
        result = await run.ended()
    assert (result.outcome, len(run.requests)) == ("completed", 2)
    opening = await _opening(bench, run.name)
    assert set(opening.attributes) == set(ATTRIBUTES) - UNUSABLE


async def _held_up(cli: Cli, name: str) -> str | None:
    told = (await cli("status", name)).err
    return told if "search attribute" in told else None


async def _opening(bench: Bench, name: str) -> Opening:
    events = (await bench.temporal.get_workflow_handle(name).fetch_history()).events
    done = next(e for e in events if e.HasField("activity_task_completed_event_attributes"))
    result = done.activity_task_completed_event_attributes.result.payloads[0]
    return Opening.model_validate_json(result.data)


async def _remove(client: Client, name: str) -> None:
    await client.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(namespace=client.namespace, search_attributes=[name])
    )


async def test_a_worker_does_not_look_for_each_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look costs some Temporals two open files."""
    looks = AsyncMock(return_value=Attributes({STATUS: "Keyword"}))
    monkeypatch.setattr("activities.services.look", looks)
    services = services_of(bench)
    assert [await services.attributes() for _ in "abc"] == [(STATUS,)] * 3
    assert looks.await_count == 1


async def test_a_look_that_fails_hides_no_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen last counts, and the next run looks again; else it would never be found."""
    away = RPCError("busy", RPCStatusCode.UNAVAILABLE, b"")
    answers = [away, Attributes({STATUS: "Keyword"}), away, Attributes({COST: "Double"})]
    monkeypatch.setattr("activities.services.look", AsyncMock(side_effect=answers))
    monkeypatch.setattr("activities.services._LOOK_EVERY_S", 0)
    services = services_of(bench)
    seen = [await services.attributes() for _ in answers]
    assert seen == [(), (STATUS,), (STATUS,), (COST,)]


def services_of(bench: Bench) -> Services:
    """Services of a worker that sets search attributes."""
    return Services(
        app=app_of(),
        redis=bench.redis,
        anthropic=AsyncMock(),
        temporal=bench.temporal,
        takeover_s=1,
        search_attributes=True,
    )
