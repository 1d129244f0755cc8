"""Agents in a worker that a team has already: its workflows, its client, its data converter."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Bench, app_of, says, uses
from team_workflows import Asked, Bulky, Collecting, Forgetful, Parent, TheirAgent
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue
from temporalio.converter import (
    DataConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    PayloadCodec,
    StorageDriverSelectContext,
    StorageDriverWorkflowInfo,
)
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

import onward.client
from onward import Agent, App, OnwardPlugin, tool
from onward.child import in_deployment
from onward.errors import AppError, ConnectError, PayloadError, UsageError
from onward.messages import RunRequest, RunResult
from onward.payload_store import PayloadStore
from onward.plugin.converter import fit
from onward.plugin.standing import Standing
from onward.settings import Settings
from onward.testing import wait_until


@tool(effect="read")
async def look(where: str) -> str:
    """Look."""
    return where * 100_000


async def connected_anew(bench: Bench, *plugins: OnwardPlugin) -> Client:
    """Connect as another process would: one connection has one worker of a task queue."""
    address = bench.temporal.service_client.config.target_host
    return await Client.connect(address, plugins=plugins)


class Team:
    """A team with a worker of its own."""

    def __init__(self, bench: Bench, client: Client) -> None:
        self.bench, self.client = bench, client

    async def start(self, *steps: Any, **asked: Any) -> WorkflowHandle[Any, RunResult]:
        """Start the parent of a run that Claude answers with these steps."""
        name = f"run-{uuid.uuid4().hex[:12]}"
        self.bench.api.scripts[name] = self.bench.script(*steps)
        given: dict[str, Any] = {"id": name, "prompt": f"Go. [script:{name}]"}
        what = Asked(**(given | asked))
        return await self.client.start_workflow(
            Parent.run, what, id=f"{name}-parent", task_queue=self.bench.queue
        )


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> Settings:
    """Settings as the environment gives them."""
    return Settings(redis_url=redis_url, payload_dir=tmp_path / "payloads")


@pytest.fixture
async def team(
    bench: Bench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Team]:
    """The team's worker, with the plugin on its client and nothing else of Onward's."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", bench.api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    client = await connected_anew(bench, OnwardPlugin(app_of(look), settings))
    async with Worker(
        client, task_queue=bench.queue, workflows=[Parent, Bulky, Forgetful, Collecting], **NO_CACHE
    ):
        yield Team(bench, client)


NO_CACHE: dict[str, Any] = {
    "max_cached_workflows": 0,
    "graceful_shutdown_timeout": timedelta(milliseconds=1),
}
"""Each activation replays the whole history: what is not deterministic fails."""


async def test_a_workflow_runs_an_agent_and_has_its_typed_result(team: Team) -> None:
    """Outcome, words and spend come back as `RunResult`; replays of parent and child agree."""
    parent = await team.start(uses(("look", {"where": "x"})), says("Seen."))
    result = await parent.result()
    assert (result.outcome, result.text, result.steps) == ("completed", "Seen.", 2)
    assert result.spend.requests == 2
    plugin = OnwardPlugin(app_of(look))
    for each in (parent.id, parent.id.removesuffix("-parent")):
        history = await team.client.get_workflow_handle(each).fetch_history()
        await Replayer(workflows=[Parent], plugins=[plugin]).replay_workflow(history)


async def test_long_results_of_agents_are_files_and_the_teams_own_are_not(
    team: Team, settings: Settings
) -> None:
    """The plugin changes nothing about workflows that are not its own."""
    await (await team.start(uses(("look", {"where": "x"})), says())).result()
    kept = {file.name for file in settings.payload_folder.rglob("*") if len(file.name) == 64}
    assert kept
    name = f"bulky-{uuid.uuid4().hex}"
    queue = team.bench.queue
    said = await team.client.execute_workflow(Bulky.run, id=name, task_queue=queue)
    assert len(said) == 200_000
    assert {f.name for f in settings.payload_folder.rglob("*") if len(f.name) == 64} == kept


async def test_a_client_of_ours_may_be_collected_in_a_workflow(
    team: Team, recwarn: pytest.WarningsRecorder
) -> None:
    """Its end would load all of Redis anew in the sandbox, with a page of warnings."""
    name, queue = f"collecting-{uuid.uuid4().hex}", team.bench.queue
    await team.client.execute_workflow(Collecting.run, id=name, task_queue=queue)
    assert [str(each.message) for each in recwarn if "imported after" in str(each.message)] == []


async def test_the_whole_text_of_a_long_result_is_a_file_and_not_in_redis(team: Team) -> None:
    """Else the ledger fills with it, and every continuation of the run carries it along."""
    parent = await team.start(uses(("look", {"where": "x" * 5})), says())
    await parent.result()
    redis: Any = team.bench.redis
    name = parent.id.removesuffix("-parent")
    keys = [key async for key in redis.scan_iter(match=f"onward:{{{name}:*", count=1000)]
    assert keys
    assert sum([await redis.memory_usage(key) for key in keys]) < 400_000  # of 500,000


async def test_a_limit_and_a_failure_are_results_too(team: Team) -> None:
    """Whatever the outcome, the parent is told what it cost."""
    limited = await team.start(uses(("look", {"where": "x"})), says(), max_steps=1)
    assert (await limited.result()).outcome == "limit_steps"
    unknown = await team.start(says(), agent="nobody")
    failed = await unknown.result()
    assert failed.outcome == "failed"
    assert "'nobody'" in failed.detail


@pytest.mark.parametrize(
    ("asked", "told"), [({"prompt": " "}, "the prompt is empty"), ({"id": ""}, "id is empty")]
)
async def test_what_is_not_possible_fails_the_parent_in_words(
    team: Team, asked: dict[str, str], told: str
) -> None:
    """And does not fail its workflow task for ever."""
    parent = await team.start(says(), **asked)
    with pytest.raises(WorkflowFailureError) as caught:
        await parent.result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert told in caught.value.cause.message


async def test_a_childs_keys_are_of_its_own_workers_deployment(team: Team) -> None:
    """Another worker of the process may be of another one: its runs must not share keys."""
    in_deployment("other", team.client.namespace, f"{team.bench.queue}-2")
    parent = await team.start(says())
    await parent.result()
    child = team.client.get_workflow_handle(parent.id.removesuffix("-parent"))
    (started, *_) = (await child.fetch_history()).events
    given = started.workflow_execution_started_event_attributes.input.payloads[0].data
    assert RunRequest.model_validate_json(given).deployment == ""


async def test_an_id_stands_for_one_job(team: Team) -> None:
    """A second parent that asks for the same id is refused: nothing is done twice."""
    first = await team.start(says("Once."))
    await first.result()
    again = await team.start(says("Twice."), id=first.id.removesuffix("-parent"))
    with pytest.raises(WorkflowFailureError) as caught:
        await again.result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "already_started"


async def test_a_parents_cancel_ends_the_run_cleanly(team: Team) -> None:
    """The run comes to its own end, with its last activity, instead of being terminated."""
    parent = await team.start(uses(("look", {"where": "x"})), says(delay_s=60))
    child = team.client.get_workflow_handle(parent.id.removesuffix("-parent"))
    journal = team.bench.api.journal
    await wait_until(lambda: len(journal.of(child.id)) == 2, 30, what="its second step")
    await parent.cancel()
    with pytest.raises(WorkflowFailureError):
        await parent.result()
    events = (await child.fetch_history()).events
    types = [e.activity_task_scheduled_event_attributes.activity_type.name for e in events]
    assert [name for name in types if name][-1] == "end"
    assert events[-1].HasField("workflow_execution_canceled_event_attributes")


async def test_an_activity_that_the_team_forgot_to_register_is_named(team: Team) -> None:
    """The dynamic activity that runs tools is asked for whatever has no other."""
    name = f"forgetful-{uuid.uuid4().hex}"
    with pytest.raises(WorkflowFailureError) as caught:
        await team.client.execute_workflow(Forgetful.run, id=name, task_queue=team.bench.queue)
    assert "no activity 'forgotten' is registered" in str(caught.value.cause.__cause__)


# ---- what a team's worker may hold already

OTHER = App(Agent("other", model="claude-sonnet-5-5"))


@activity.defn(name="look")
async def their_look() -> None:
    """Named like a tool."""


@activity.defn(name="resolve")
async def their_resolve() -> None:
    """Named like one of Onward's activities."""


@activity.defn(dynamic=True)
async def their_dynamic(args: Sequence[RawValue]) -> None:
    """Takes whatever has no name of its own."""


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ({"activities": [their_look]}, "a tool of this app"),
        ({"activities": [their_resolve]}, "an activity of Onward's"),
        ({"activities": [their_dynamic]}, "dynamic"),
        ({"workflows": [TheirAgent]}, "of type 'agent'"),
    ],
)
async def test_names_that_agents_need_are_refused_at_the_start(
    bench: Bench, settings: Settings, held: dict[str, Any], told: str
) -> None:
    """An activity named like a tool would be run past the ledger."""
    plugin = OnwardPlugin(app_of(look), settings)
    with pytest.raises(AppError, match=told):
        Worker(bench.temporal, task_queue=bench.queue, plugins=[plugin], **held)


async def test_two_plugins_are_refused(bench: Bench, settings: Settings) -> None:
    """Each would bring the workflow and a dynamic activity."""
    one, other = (OnwardPlugin(app, settings) for app in (app_of(look), OTHER))
    with pytest.raises(AppError, match="two OnwardPlugins"):
        Worker(bench.temporal, task_queue=bench.queue, plugins=[one, other])


async def test_a_worker_that_cannot_keep_its_promise_does_not_begin(
    bench: Bench, settings: Settings
) -> None:
    """Its `async with` ends with the error, instead of waiting for ever."""
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    plugin = OnwardPlugin(app_of(look), away)
    worker = Worker(await connected_anew(bench), task_queue=bench.queue, plugins=[plugin])
    with pytest.raises(ConnectError, match="no Redis"):
        await worker.run()
    worker = Worker(await connected_anew(bench), task_queue=bench.queue, plugins=[plugin])
    with pytest.raises(ConnectError, match="no Redis"):
        async with worker:
            await asyncio.Event().wait()


async def test_a_cancel_at_the_start_ends_a_worker(
    bench: Bench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though Redis's client loses it: a worker that began would keep its program from ending."""
    looked, inside = Standing.kept, asyncio.Event()

    @asynccontextmanager
    async def losing(standing: Standing, worker: Worker) -> AsyncGenerator[None]:
        async with looked(standing, worker):
            inside.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            yield

    monkeypatch.setattr(Standing, "kept", losing)
    plugin = OnwardPlugin(app_of(look), settings)
    worker = Worker(bench.temporal, task_queue=bench.queue, plugins=[plugin])
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(inside.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 10)


async def test_two_apps_do_not_share_a_task_queue(bench: Bench, settings: Settings) -> None:
    """The second one says so at its start."""
    one, other = (OnwardPlugin(app, settings) for app in (app_of(look), OTHER))
    async with Worker(bench.temporal, task_queue=bench.queue, plugins=[one]) as first:
        await wait_until(lambda: first.is_running, 10, what="the first worker")
        second = Worker(await connected_anew(bench), task_queue=bench.queue, plugins=[other])
        with pytest.raises(UsageError, match="ONWARD_TASK_QUEUE"):
            await second.run()


# ---- the client's own data converter


class Codec(PayloadCodec):
    """A team's encryption, which reads nothing that is not encrypted."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt."""
        plain = (each.SerializeToString() for each in payloads)
        kind = {"encoding": b"binary/theirs"}
        return [Payload(metadata=kind, data=bytes(b ^ 7 for b in data)) for data in plain]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt."""
        assert all(each.metadata["encoding"] == b"binary/theirs" for each in payloads)
        return [Payload.FromString(bytes(b ^ 7 for b in each.data)) for each in payloads]


class TheirStore(PayloadStore):
    """A team's own storage."""

    def name(self) -> str:
        """Tell it from Onward's."""
        return "theirs"


async def test_what_a_codec_encrypts_is_read_with_the_teams_client_and_by_no_command(
    bench: Bench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`onward.client` uses the client's codec; a command says so, and lists all runs even so."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", bench.api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    address = bench.temporal.service_client.config.target_host
    encrypting = replace(DataConverter.default, payload_codec=Codec())
    plugin = OnwardPlugin(app_of(look), settings)
    client = await Client.connect(address, data_converter=encrypting, plugins=[plugin])
    async with Worker(client, task_queue=bench.queue, workflows=[Parent], **NO_CACHE):
        parent = await Team(bench, client).start(uses(("look", {"where": "x"})), says("Seen."))
        assert (await parent.result()).text == "Seen."
        name = parent.id.removesuffix("-parent")
        own = await onward.client.connect(client)
        assert (await own.attach(name).result()).text == "Seen."
        bench.api.scripts["own"] = bench.script(says("Own."))
        started = await own.start("Go. [script:own]", agent="tester")
        assert (await started.result()).text == "Own."
    commands = await onward.client.connect()
    with pytest.raises(PayloadError, match="binary/theirs"):
        await commands.attach(name).describe()
    assert name in [run.id for run in await commands.list()]


def test_a_codec_and_a_storage_of_ones_own_stay(tmp_path: Path) -> None:
    """What a team chose goes on for all that is no agent's."""
    theirs = TheirStore(tmp_path / "theirs")
    storage = ExternalStorage(drivers=[theirs], payload_size_threshold=10)
    given = replace(DataConverter.default, payload_codec=Codec(), external_storage=storage)
    made = fit(fit(given, tmp_path, stores=False), tmp_path, stores=True)
    assert made.payload_codec is given.payload_codec
    assert made.external_storage is not None
    assert [driver.name() for driver in made.external_storage.drivers] == ["onward-files", "theirs"]
    assert _store(made, "agent", 100_000) == "onward-files"
    assert _store(made, "agent", 100) is None
    assert _store(made, "order", 100_000) == "theirs"
    assert _store(made, "order", 5) is None


def _store(converter: DataConverter, workflow: str | None, size: int) -> str | None:
    """Name the store that a payload to a workflow goes to."""
    select = converter.external_storage and converter.external_storage.driver_selector
    assert select
    target = StorageDriverWorkflowInfo(namespace="default", type=workflow)
    chosen = select(StorageDriverSelectContext(target=target), Payload(data=b"x" * size))
    return chosen.name() if chosen else None


@pytest.mark.parametrize(("size", "stored"), [(100_000, False), (2_100_000, True)])
async def test_a_childs_result_that_temporal_would_refuse_is_a_file(
    tmp_path: Path, size: int, stored: bool
) -> None:
    """Else the run would hand it in for ever; a smaller one may be of a workflow of the team's."""
    made = fit(DataConverter.default, tmp_path, stores=True)
    assert bool(_store(made, None, size)) is stored


def test_a_payload_converter_that_is_not_pydantics_is_refused(tmp_path: Path) -> None:
    """One that sorts keys would change what Claude was told."""

    class Own(DefaultPayloadConverter):
        pass

    given = replace(DataConverter.default, payload_converter_class=Own)
    with pytest.raises(UsageError, match="PydanticPayloadConverter"):
        fit(given, tmp_path, stores=True)
