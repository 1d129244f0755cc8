"""The janitor gives the records of ended runs an end, and takes none from a run that goes on."""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from agent_runs import connected
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from onward.identity import run_key, shared_hash
from onward.ledger import INLINE_BYTES, Ledger
from onward.lifetime import BUSINESS_KEY_KEPT_MS
from onward.local_services import RedisServer, TemporalServer, redis_server
from onward.local_services.temporal import RETENTION
from onward.messages import RunRef
from onward.redis_server.connection import redis_client
from onward.run_hashes import parse_key
from onward.testing import wait_until
from onward.workers.janitor import LOCK, Janitor

pytestmark = pytest.mark.timeout(60)

KEPT_MS = (RETENTION + timedelta(hours=24)).total_seconds() * 1000


@workflow.defn(name="agent", sandboxed=False)
class Chain:
    """Continues as new, then waits."""

    @workflow.run
    async def run(self, more: int) -> None:
        if more:
            workflow.continue_as_new(more - 1)
        await asyncio.Event().wait()


class Scene:
    """Runs in Temporal that no worker has, and their records in a Redis of their own."""

    def __init__(self, temporal: Client, redis: Any) -> None:
        self.temporal, self.redis = temporal, redis
        self.queue = f"janitor-{uuid.uuid4().hex[:8]}"
        self.janitor = Janitor(redis, temporal, every_s=3600)

    async def start(self, name: str = "") -> WorkflowHandle[Any, Any]:
        name = name or f"run/{uuid.uuid4().hex[:8]}"
        return await self.temporal.start_workflow("agent", 1, id=name, task_queue=self.queue)

    def ledger(self, workflow_id: str, first: str, key: str | None = None) -> Ledger:
        ref = RunRef(
            workflow_id=workflow_id, first_run_id=first, run_id=first, original_run_id=first
        )
        return Ledger(self.redis, ref, strict=True, key=key)

    async def records_of(self, run: WorkflowHandle[Any, Any]) -> Ledger:
        return await self.records(run.id, run.first_execution_run_id or "")

    async def records(self, workflow_id: str, first: str) -> Ledger:
        """Write records as an open run has them: with a result out of line, and no expiry."""
        ledger = self.ledger(workflow_id, first)
        await ledger.begin(None, reset_lineage=False)
        long = json.dumps("x" * (INLINE_BYTES + 1))
        await ledger.complete("1.1", fp="f", cls="keyed", token="t", result=long)
        return ledger

    async def expiries(self, ledger: Ledger) -> set[int]:
        """Expiries of all the run's keys, ms; -1: none."""
        keys = await self.redis.keys(f"{ledger.key}*")
        assert len(keys) == 2
        return {await self.redis.pttl(key) for key in keys}


@pytest_asyncio.fixture(loop_scope="session")
async def server() -> AsyncGenerator[RedisServer]:
    """Run a server that holds nothing but the test's records."""
    async with redis_server(None) as own:
        yield own


@pytest_asyncio.fixture(loop_scope="session")
async def scene(temporal: TemporalServer, server: RedisServer) -> AsyncGenerator[Scene]:
    """Connect to both servers."""
    client = await Client.connect(temporal.address, data_converter=pydantic_data_converter)
    async with connected(server.url) as redis:
        yield Scene(client, redis)


def expire(expiries: set[int]) -> bool:
    """Whether all keys expire when Temporal has forgotten the run."""
    return all(KEPT_MS - 60_000 < ms <= KEPT_MS for ms in expiries)


async def test_a_terminated_runs_records_expire_and_are_not_put_off(scene: Scene) -> None:
    """Nobody told the ledger of this end. A second sweep leaves the expiry as the first set it."""
    run = await scene.start()
    records = await scene.records_of(run)
    await run.terminate("nobody wants it")
    assert (await scene.janitor.sweep())["closed"] == 1
    assert expire(await scene.expiries(records))
    await scene.redis.pexpire(records.key, 5_000)
    await scene.janitor.sweep()
    assert await scene.redis.pttl(records.key) <= 5_000


async def test_a_run_that_goes_on_loses_no_records(scene: Scene) -> None:
    """An expiry that a reset or a late janitor left is taken back, from the results beside too."""
    records = await scene.records_of(await scene.start())
    await records.end(60_000)
    assert (await scene.janitor.sweep())["open"] == 1
    assert await scene.expiries(records) == {-1}


async def test_a_late_operation_only_puts_the_end_off(scene: Scene) -> None:
    """A zombie's operation after `end` takes the expiry back; the next sweep sets it again."""
    run = await scene.start()
    records = await scene.records_of(run)
    await run.terminate("over")
    await records.end(60_000)
    await records.complete("1.1", fp="f", cls="keyed", token="zombie", result='"late"')
    assert await scene.expiries(records) == {-1}
    await scene.janitor.sweep()
    assert expire(await scene.expiries(records))


async def test_records_of_a_used_again_id_are_told_apart(scene: Scene) -> None:
    """The id's older run has ended, whatever the newer one does; the newer one keeps its own."""
    older = await scene.start()
    old = await scene.records_of(older)
    await older.terminate("again, please")
    new = await scene.records_of(await scene.start(older.id))
    await scene.janitor.sweep()
    assert expire(await scene.expiries(old))
    assert await scene.expiries(new) == {-1}


async def test_a_continued_run_goes_on(scene: Scene) -> None:
    """The first run of the chain is closed; the chain is not."""
    run = await scene.start()
    records = await scene.records_of(run)
    async with Worker(
        scene.temporal,
        task_queue=scene.queue,
        workflows=[Chain],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="test",  # computing one takes a second
    ):
        first = scene.temporal.get_workflow_handle(run.id, run_id=run.first_execution_run_id)
        await wait_until(lambda: _continued(first), 20, what="the second run")
    await scene.janitor.sweep()
    assert await scene.expiries(records) == {-1}


async def _continued(first: WorkflowHandle[Any, Any]) -> bool:
    status = (await first.describe()).status
    return status is not None and status.name == "CONTINUED_AS_NEW"


async def test_what_it_cannot_judge_it_leaves_alone(scene: Scene) -> None:
    """A run unknown here may be another namespace's, even one with the id of a run known here."""
    here = await scene.start()
    stranger = await scene.records(here.id, str(uuid.uuid4()))
    unknown = await scene.records("run of another Temporal", str(uuid.uuid4()))
    await unknown.end(60_000)
    await scene.redis.hset("onward:{no run}", "field", "value")
    assert dict(await scene.janitor.sweep()) == {"unknown": 2}
    assert await scene.expiries(stranger) == {-1}
    assert all(0 < ms <= 60_000 for ms in await scene.expiries(unknown))
    assert await scene.redis.pttl("onward:{no run}") == -1


async def test_a_business_key_that_was_given_up_expires(scene: Scene) -> None:
    """Nobody who claims a key of all runs and is terminated says so: it goes after 90 days, too."""
    key = shared_hash("default", f"k:{uuid.uuid4().hex}")
    given_up = scene.ledger("refund", str(uuid.uuid4()), key)
    await given_up.begin(None, reset_lineage=False)
    assert await scene.redis.pttl(key) == -1
    await scene.janitor.sweep()
    assert 0 < await scene.redis.pttl(key) <= BUSINESS_KEY_KEPT_MS
    await given_up.end(60_000)
    await scene.janitor.sweep()
    assert await scene.redis.pttl(key) <= 60_000


async def test_one_works_at_a_time(scene: Scene) -> None:
    """Of all workers one sweeps in each interval, and the lock of one that died runs out."""
    other = Janitor(scene.redis, scene.temporal, every_s=3600)
    assert [await scene.janitor.takes_turn(), await other.takes_turn()] == [True, False]
    assert 0 < await scene.redis.pttl(LOCK) <= 3_600_000
    await scene.redis.pexpire(LOCK, 1)
    await wait_until(other.takes_turn, 10, what="the lock's end")


@pytest.mark.crash
async def test_it_outlives_its_redis(
    scene: Scene, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A Redis that is away costs a line in the log; when it is back the work goes on."""
    run = await scene.start()
    records = await scene.records_of(run)
    await run.terminate("over")
    await server.kill()
    redis = redis_client(server.url)
    janitor = Janitor(redis, scene.temporal, every_s=0.2)
    async with redis, janitor.working():
        with caplog.at_level(logging.WARNING):
            await wait_until(lambda: "janitor" in caplog.text, 20, what="the warning")
        await server.start()
        commands: Any = redis

        async def expires() -> bool:
            return bool(await commands.pttl(records.key) > 0)

        await wait_until(expires, 20, what="the sweep")


async def test_it_ends_with_its_worker_though_a_client_loses_the_cancel(scene: Scene) -> None:
    """A worker that is told to stop stops: a cancel that nobody heard is said again."""
    heard: list[bool] = []

    class Deaf(Janitor):
        async def work(self) -> None:
            for _ in range(2):
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                heard.append(True)

    async with asyncio.timeout(20), Deaf(scene.redis, scene.temporal, every_s=3600).working():
        await asyncio.sleep(0)  # it begins
    assert len(heard) == 2


@pytest.mark.parametrize("workflow_id", ["plain", "a:b{c}/d e", "ümläut*?[x]"])
def test_a_key_names_its_run(workflow_id: str) -> None:
    """The run is found from its hash's name, whatever characters the id has."""
    first = str(uuid.uuid4())
    found = parse_key(f"onward:{{{run_key(workflow_id, first)}}}")
    assert found is not None
    assert (found.workflow_id, found.first_run_id) == (workflow_id, first)


@pytest.mark.parametrize(
    "key", [LOCK, "onward:{doctor}", "onward:{x:1}", "onward:{a:b}:b:00", shared_hash("d", "p")]
)
def test_other_keys_are_no_runs(key: str) -> None:
    """Locks, scratch keys, results beside a hash, business keys are not taken for a run."""
    assert parse_key(key) is None
