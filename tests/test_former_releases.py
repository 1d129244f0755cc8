"""A worker does not start beside one of a release that cannot say that it lives."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from agent_double import AgentDouble, begin, call_claude, end
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from onward.errors import UsageError
from onward.messages import RunRequest
from onward.testing import wait_until
from onward.testing.warm import WarmWorker
from onward.workers import former_releases
from onward.workers.former_releases import refuse_former
from onward.workers.pollers import polled

pytestmark = pytest.mark.timeout(60)


@asynccontextmanager
async def older(client: Client, queue: str, build_id: str) -> AsyncGenerator[None]:
    """Poll, as a worker of another release."""
    async with Worker(
        client,
        task_queue=queue,
        workflows=[AgentDouble],
        activities=[begin, call_claude, end],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id=build_id,
    ):
        await wait_until(lambda: polled(client, queue), 30, what="the worker being listed")
        yield


async def test_an_older_worker_that_polls_is_refused(client: Client, queue: str) -> None:
    """It is named with its release, and what to do; what has polled before proves nothing."""
    said = list[str]()
    async with older(client, queue, "onward-0.4.2"):
        refusing = asyncio.create_task(refuse_former(client, queue, said.append))
        await wait_until(lambda: said, 10, what="the wait being told")
        # A worker polls once a minute, and anew whenever it was given something.
        request = RunRequest(agent="coder", prompt="completes", deployment="d")
        run = f"run-{uuid.uuid4().hex}"
        await client.start_workflow(AgentDouble.run, request, id=run, task_queue=queue)
        with pytest.raises(UsageError, match=r"release 0\.4\.2.*ONWARD_TASK_QUEUE"):
            await asyncio.wait_for(refusing, 30)
    assert "(onward-0.4.2) polled" in said[0]


async def test_one_that_is_gone_is_waited_out(
    client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal names it for minutes; once it should have polled again, the new one starts."""
    monkeypatch.setattr(former_releases, "LONGEST_POLL", timedelta(seconds=0.2))
    said = list[str]()
    async with older(client, queue, "onward-0.4.2"):
        pass
    await refuse_former(client, queue, said.append)
    assert len(said) == 1


@pytest.mark.crash
async def test_a_worker_that_waits_stops_when_it_is_told(
    client: Client, queue: str, where: dict[str, str], tmp_path: Path
) -> None:
    """A deploy that is called off ends it at once, and with 0: not after 75 seconds."""
    async with older(client, queue, "onward-0.4.2"):
        worker = await WarmWorker.start(where, log=tmp_path / "worker.log")
        await worker.logged("waiting to see whether that goes on", 30)
        assert await worker.stop() == 0
    assert worker.output().endswith("stopped\n")


@pytest.mark.parametrize("build_id", ["shop-1.0", "onward-99.0.0"])
async def test_others_are_not_waited_for(client: Client, queue: str, build_id: str) -> None:
    """Somebody else's worker is none of ours, and a newer one tells Redis that it lives."""
    said = list[str]()
    async with older(client, queue, build_id):
        await refuse_former(client, queue, said.append)
    assert said == []
