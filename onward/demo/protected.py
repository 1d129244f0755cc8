"""The demo with Onward: embedded servers, a worker that is killed, a run that goes on."""

import asyncio
import sys
import time
import uuid
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from onward.demo.audit import Evidence
from onward.demo.chase import Chase, Snapshot, View
from onward.demo.history import RunHistory
from onward.demo.report import Bill
from onward.demo.stage import Stage
from onward.history import told
from onward.local_services import RedisServer, TemporalServer, redis_server, temporal_server
from onward.managed_process import ManagedProcess, ProcessFailed
from onward.messages import RunRequest, RunResult
from onward.names import WORKFLOW
from onward.payload_store import data_converter
from onward.testing.messages_api import read_journal
from onward.testing.processes import WorkerProcess
from onward.tools import workspace

APP = "onward.demo.app:app"
_TASK_TIMEOUT = timedelta(seconds=3)
"""Of a workflow task: how long a worker killed in mid-task delays the next one."""
_RPC_TIMEOUT = timedelta(seconds=5)


@dataclass
class AgentRun:
    """A run of the demo's agent: starts workers for it, follows its history."""

    stage: Stage
    temporal: TemporalServer
    redis: RedisServer
    handle: WorkflowHandle[Any, RunResult]
    task_queue: str
    history: RunHistory = field(default_factory=RunHistory)
    closed: bool = False
    worker_starts_s: list[float] = field(default_factory=list[float])
    """How long each worker took to be ready: most of a takeover, if nobody else polls."""
    _workers: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def start(self) -> ManagedProcess:
        """Start a worker on the demo's own task queue, with nobody's keys."""
        log = self.stage.folder / f"worker-{len(self._workers) + 1}.log"
        worker = await WorkerProcess.start(self._environment(), log=log)
        self._workers.append(asyncio.create_task(self._time(worker)))
        return worker

    def _environment(self) -> dict[str, str]:
        return {
            **self.stage.environment,
            "TEMPORAL_ADDRESS": self.temporal.address,
            "TEMPORAL_NAMESPACE": self.temporal.namespace,
            "ONWARD_REDIS_URL": self.redis.url,
            "ONWARD_APP": APP,
            "ONWARD_TASK_QUEUE": self.task_queue,
            "ONWARD_DATA_DIR": str(self.stage.folder / "data"),
        }

    async def _time(self, worker: WorkerProcess) -> None:
        began = time.monotonic()
        with suppress(ProcessFailed):  # the killer has a word with it
            await worker.ready()
            self.worker_starts_s.append(round(time.monotonic() - began, 2))

    def finished_steps(self) -> int:
        """Count the steps that history has whole."""
        return self.history.finished_steps()

    async def follow(self) -> None:
        """Read events as they come, until the run's last one."""
        async for event in self.handle.fetch_history_events(wait_new_event=True):
            self.history.note(event)
        self.closed = True


async def run(stage: Stage, view: View, cleanup: AsyncExitStack) -> tuple[Evidence, Bill]:
    """Run the agent through all kills and gather what the audit needs.

    The servers stay until `cleanup` ends, so that the run can be looked at in the Temporal UI.
    """
    snapshot = Snapshot("An agent run with Onward", len(stage.script.steps))
    snapshot.kills = len(stage.script.kills)
    view.show(snapshot)
    agent = await _begin(stage, cleanup)
    snapshot.ui_url = agent.temporal.run_url(agent.handle.id)

    def tell(snapshot: Snapshot) -> None:
        snapshot.saying = agent.history.saying or "waiting for the first worker"
        snapshot.cost_usd = agent.history.cost_usd

    chase = Chase(stage, agent, view, snapshot)
    cleanup.push_async_callback(chase.killer.stop)
    following = asyncio.create_task(agent.follow())
    try:
        await chase.run(following.done, tell)
    finally:
        following.cancel()
        (failure,) = await asyncio.gather(following, return_exceptions=True)
        if isinstance(failure, Exception):
            chase.trouble.append(f"following the run's history ended: {failure!r}")
        if not agent.closed:
            chase.trouble.extend(await _held_up_by(agent))
        await _terminate(agent)
    result = await _result(agent)
    evidence = _evidence(agent, chase, result)
    return evidence, await _bill(agent, result)


async def _begin(stage: Stage, cleanup: AsyncExitStack) -> AgentRun:
    temporal = await cleanup.enter_async_context(temporal_server(stage.folder / "data", ui=True))
    redis = await cleanup.enter_async_context(redis_server(stage.folder / "data"))
    converter = data_converter(stage.folder / "data" / "payloads")
    client = await Client.connect(
        temporal.address, namespace=temporal.namespace, data_converter=converter
    )
    name = f"demo-{uuid.uuid4().hex[:8]}"
    request = RunRequest(
        prompt=stage.script.prompt,
        agent="demo",
        workspace=workspace.prepare(stage.workspace, allow_dirty=True),
        deployment="demo",
    )
    handle = await client.start_workflow(
        WORKFLOW,
        request,
        id=name,
        task_queue=f"onward-{name}",
        task_timeout=_TASK_TIMEOUT,
        result_type=RunResult,
    )
    return AgentRun(stage, temporal, redis, handle, task_queue=f"onward-{name}")


async def _held_up_by(agent: AgentRun) -> list[str]:
    try:
        described = await agent.handle.describe(rpc_timeout=_RPC_TIMEOUT)
    except RPCError as error:
        return [f"the run cannot be looked at: {error}"]
    return failing(described.raw_description)


def failing(description: DescribeWorkflowExecutionResponse) -> list[str]:
    """Say in words which activities of an open run fail and are tried again, and why."""
    failures = [each for each in description.pending_activities if each.HasField("last_failure")]
    return [
        f"{one.activity_type.name} fails, attempt {one.attempt}: {told(one.last_failure).message}"
        for one in failures
    ]


async def _terminate(agent: AgentRun) -> None:
    """Leave no open run behind: a later worker must never pick it up."""
    if not agent.closed:
        with suppress(RPCError):  # it closed by itself in the meantime, or its server is gone
            await agent.handle.terminate(
                reason="the demo that started this run has ended", rpc_timeout=_RPC_TIMEOUT
            )
            print(f"terminated the open run {agent.handle.id}", file=sys.stderr)  # noqa: T201


async def _result(agent: AgentRun) -> RunResult | str:
    """Return the run's result, or in words why there is none."""
    try:
        return await agent.handle.result(rpc_timeout=_RPC_TIMEOUT)
    except Exception as error:  # noqa: BLE001  (whatever it is, the audit has to say it)
        cause = getattr(error, "cause", None)
        return f"without a result: {cause or error}"


def _evidence(agent: AgentRun, chase: Chase, result: RunResult | str) -> Evidence:
    stage = agent.stage
    return Evidence(
        script=stage.script,
        refactor=stage.refactor,
        workspace=stage.workspace,
        struck=chase.killer.struck,
        claude=read_journal(stage.journal),
        requests=stage.payments.requests(),
        effects=stage.payments.effects(),
        outcome=result if isinstance(result, str) else result.outcome,
        trouble=chase.trouble,
        in_doubt=() if isinstance(result, str) else result.in_doubt,
        activities=list(agent.history.activities.values()),
    )


async def _bill(agent: AgentRun, result: RunResult | str) -> Bill:
    described = await agent.handle.describe(rpc_timeout=_RPC_TIMEOUT)
    info = described.raw_description.workflow_execution_info
    return Bill(
        steps=result.steps if isinstance(result, RunResult) else agent.finished_steps(),
        spend=result.spend.model_dump(mode="json") if isinstance(result, RunResult) else {},
        history_bytes=info.history_size_bytes,
        workflow_id=agent.handle.id,
        ui_url=agent.temporal.run_url(agent.handle.id),
        worker_starts_s=agent.worker_starts_s,
    )
