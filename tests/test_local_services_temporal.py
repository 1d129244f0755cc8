"""The embedded Temporal: ready, quick, seen in its UI, and its runs survive a kill."""

import asyncio
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from onward.local_services import TemporalServer, temporal_server
from onward.local_services.temporal import RETENTION
from onward.names import ATTRIBUTES


@workflow.defn(name="local_services_nap")
class Nap:
    """Sleeps three times for a moment, or until told to go on."""

    def __init__(self) -> None:
        self.woken = False

    @workflow.run
    async def run(self, wait: bool) -> str:
        if wait:
            await workflow.wait_condition(lambda: self.woken)
            return "woken"
        for _ in range(3):
            await workflow.sleep(0.05)
        return "slept"

    @workflow.signal
    def wake(self) -> None:
        self.woken = True


def nap_worker(client: Client, queue: str) -> Worker:
    return Worker(
        client, task_queue=queue, workflows=[Nap], workflow_runner=UnsandboxedWorkflowRunner()
    )


async def test_temporal_timers_are_not_rounded_up_to_a_second(temporal: TemporalServer) -> None:
    """Without the speed flags each of three naps takes a second, and so does each retry."""
    client = await Client.connect(temporal.address)
    queue = f"q-{uuid4()}"
    async with nap_worker(client, queue):
        handle = await client.start_workflow(Nap.run, False, id=queue, task_queue=queue)
        await handle.result()
    history = await handle.fetch_history()
    started = times(history, EventType.EVENT_TYPE_TIMER_STARTED)
    fired = times(history, EventType.EVENT_TYPE_TIMER_FIRED)
    # The shortest, by the server's clock: a busy machine lengthens some, the flag's lack all.
    assert min(end - start for start, end in zip(started, fired, strict=True)) < 0.6


def times(history: WorkflowHistory, kind: EventType.ValueType) -> list[float]:
    found = [event.event_time for event in history.events if event.event_type == kind]
    return [time.ToDatetime().timestamp() for time in found]


@pytest.mark.crash
async def test_temporal_runs_survive_a_kill(tmp_path: Path) -> None:
    """SIGKILL and restart of the server: an open run goes on, on the same address."""
    queue = f"q-{uuid4()}"
    async with temporal_server(tmp_path, ui=False) as server:
        client = await Client.connect(server.address)
        handle = await client.start_workflow(Nap.run, True, id=queue, task_queue=queue)
        await server.restart()
        async with nap_worker(client, queue):
            await handle.signal(Nap.wake)
            assert await handle.result() == "woken"


async def test_temporal_namespace_is_ready(temporal: TemporalServer) -> None:
    """Retention is what we say it is, and the search attributes are there before any workflow."""
    client = await Client.connect(temporal.address, namespace=temporal.namespace)
    found = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=temporal.namespace), timeout=timedelta(seconds=5)
    )
    assert found.config.workflow_execution_retention_ttl.ToTimedelta() == RETENTION
    assert set(ATTRIBUTES) <= set(found.config.custom_search_attribute_aliases.values())


async def test_temporal_shows_its_ui_where_it_says(tmp_path: Path) -> None:
    """The UI link is a page."""
    async with temporal_server(tmp_path) as server:
        assert server.ui_url is not None
        host, port = server.ui_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        assert b" 200 " in await reader.readline()
        writer.close()
