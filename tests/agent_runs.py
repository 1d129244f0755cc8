"""A bench for tests of whole runs: real servers, the real client, a scripted Claude.

Workflows are not cached, so every activation replays the whole history: a step that is not
deterministic fails the test that runs it.
"""

import json
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from bare_worker import build_worker
from redis.asyncio import Redis
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.services import Services
from onward import Agent, App, claude
from onward.ledger import Ledger
from onward.messages import (
    LimitOverrides,
    Opening,
    RunRef,
    RunRequest,
    RunResult,
    RunStatus,
    Spend,
    Workspace,
)
from onward.names import WORKFLOW
from onward.testing import wait_until
from onward.testing.messages_api import Entry, Script, ScriptedAPI, Step
from workflows.agent import AgentWorkflow

MODEL = "claude-sonnet-5-5"
Told = TypeVar("Told", RunStatus, Spend)
SEARCH: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "weather"},
}
"""A call of the API's own tool, and its result."""
FOUND: dict[str, Any] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [],
}

Blocks = Sequence[Mapping[str, Any]]
ASKED: dict[str, Any] = {"max_cached_workflows": 10}
"""For a worker that is asked while it works: without a cache, as here else, the SDK loses questions
that come while it puts a run out, and a watcher says truly that no worker answers."""

# Workers run workflows without it; here it shows what would not be deterministic. Passed through is
# what workflows use that is: and libraries whose `__del__` the garbage collector may call in one.
SANDBOX = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules(
        *("onward", "simplejson"),
        *("redis", "hiredis", "anthropic", "httpx2", "httpcore2", "aiohttp", "opentelemetry"),
    )
)


def uses(*calls: tuple[str, dict[str, Any]], **fields: Any) -> Step:
    """Make a step in which Claude asks for tools."""
    blocks = [{"type": "tool_use", "name": name, "input": given} for name, given in calls]
    return Step(content=blocks, **fields)


def says(text: str = "Done.", **fields: Any) -> Step:
    """Make a step in which Claude speaks and stops."""
    return Step(content=[{"type": "text", "text": text}], **fields)


def request_body(request: Entry) -> dict[str, Any]:
    """Body of a request, without the marks for the API's cache: those move on with every step."""

    def unmarked(value: dict[str, Any]) -> dict[str, Any]:
        return {name: part for name, part in value.items() if name != "cache_control"}

    body: dict[str, Any] = json.loads(request.body, object_hook=unmarked)
    return body


def connected(url: str) -> Redis:
    """Connect to Redis; use it in `async with`."""
    return Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]


@dataclass
class Bench:
    """Servers and clients of one test; workers and runs are on a task queue of its own."""

    temporal: Client
    redis: Redis
    api: ScriptedAPI
    takeover_s: float = 5.0
    """Longer than a worker's own: nothing in this process is killed, and a busy machine that stalls
    for a moment must not look like a death.
    """
    silence_s: float = claude.SILENCE_S
    """Longest silence on the wire from Claude; tests of that set it low."""
    history_events: int = 1000
    """When runs continue as new; tests of that set it low."""
    queue: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:12]}")

    def ledger(self, run: "Run") -> Ledger:
        """The ledger of a run."""
        first = run.handle.first_execution_run_id or ""
        ref = RunRef(workflow_id=run.name, first_run_id=first, run_id=first, original_run_id=first)
        return Ledger(self.redis, ref, strict=True)

    @staticmethod
    def script(*steps: Step) -> Script:
        """Make a script of steps."""
        return Script(steps=list(steps))

    @asynccontextmanager
    async def worker(
        self, app: App, *, search_attributes: bool = False, **options: Any
    ) -> AsyncGenerator[Worker]:
        """Run a worker of `app` in this process."""
        # Closed at the end: one that is not makes a task in whatever loop the collector runs in,
        # a workflow's as well.
        anthropic = claude.client(base_url=self.api.url, api_key="test", silence_s=self.silence_s)
        services = Services(
            app=app,
            redis=self.redis,
            anthropic=anthropic,
            temporal=self.temporal,
            strict=True,
            takeover_s=self.takeover_s,
            history_events=self.history_events,
            search_attributes=search_attributes,
        )
        defaults: dict[str, Any] = {
            "unsandboxed_workflow_runner": SANDBOX,
            "max_cached_workflows": 0,
            # A workflow that is kept from its processor for two seconds counts as deadlocked.
            "max_concurrent_workflow_tasks": 4,
            "graceful_shutdown_timeout": timedelta(),
        }
        async with anthropic, build_worker(services, self.queue, **(defaults | options)) as worker:
            yield worker

    async def start(
        self,
        *steps: Step,
        agent: str = "tester",
        prompt: str = "Go.",
        workspace: Workspace | None = None,
        model: str | None = None,
        **limits: Any,
    ) -> "Run":
        """Start a run that Claude answers with `steps`."""
        name = f"run-{uuid.uuid4().hex[:12]}"
        self.api.scripts[name] = self.script(*steps)
        request = RunRequest(
            prompt=f"{prompt} [script:{name}]",
            agent=agent,
            model=model,
            workspace=workspace,
            limits=LimitOverrides(**limits),
        )
        handle: WorkflowHandle[Any, RunResult] = await self.temporal.start_workflow(
            WORKFLOW,
            request,
            id=name,
            task_queue=self.queue,
            task_timeout=timedelta(seconds=3),
            result_type=RunResult,
            memo={"agent": agent},
        )
        return Run(self, name, handle)

    async def run(self, app: App, *steps: Step, **options: Any) -> "Run":
        """Run to the end with a worker of `app`; the result is in `result`."""
        async with self.worker(app):
            run = await self.start(*steps, **options)
            await run.ended()
        return run


@dataclass
class Run:
    """One run on the bench."""

    bench: Bench
    name: str
    handle: WorkflowHandle[Any, RunResult]
    result: RunResult | None = None

    async def ended(self) -> RunResult:
        """Wait for the end, and check that no request to Claude broke the API's rules."""
        self.result = await self.handle.result()
        self.check_requests()
        return self.result

    async def failed(self) -> RunResult:
        """Wait for the end of a run that fails, and return the result in its failure."""
        with pytest.raises(WorkflowFailureError) as caught:
            await self.handle.result()
        cause = caught.value.cause
        assert isinstance(cause, ApplicationError)
        return RunResult.model_validate(cause.details[0])

    async def status(self) -> RunStatus:
        """Ask its worker how it goes."""
        return await self._ask("status", RunStatus)

    async def spend(self) -> Spend:
        """Ask its worker what it has cost so far."""
        return await self._ask("spend", Spend)

    async def _ask(self, query: str, kind: type[Told]) -> Told:
        async def answer() -> Told | None:
            # A question that comes while a workflow is put out of the cache may never be answered.
            with suppress(RPCError):
                told: Told = await self.handle.query(
                    query, result_type=kind, rpc_timeout=timedelta(seconds=5)
                )
                return told
            return None

        found = await wait_until(answer, 60, what=f"an answer of {self.name}")
        assert found is not None
        return found

    def check_requests(self) -> None:
        """Fail if Claude's side refused a request, or saw a changed prefix."""
        broken = [problem for entry in self.requests for problem in entry.violations]
        assert not broken, broken

    @property
    def requests(self) -> list[Entry]:
        """What Claude's side saw of this run."""
        return self.bench.api.journal.of(self.name)

    async def history(self) -> WorkflowHistory:
        """Fetch the event history; of a run that continued as new, that of the newest one."""
        return await self.handle.fetch_history()

    async def chain(self) -> list[WorkflowHistory]:
        """Fetch the histories of all its workflow runs, oldest first."""
        found: list[WorkflowHistory] = []
        client, run_id = self.bench.temporal, self.handle.run_id
        while run_id is None or run_id:
            handle = client.get_workflow_handle(self.name, run_id=run_id)
            found.append(await handle.fetch_history())
            started = found[-1].events[0].workflow_execution_started_event_attributes
            run_id = started.continued_execution_run_id
        return found[::-1]

    async def failing_activity(self) -> str:
        """Say how an activity failed last that is tried again; empty if there is none."""
        pending = (await self.handle.describe()).raw_description.pending_activities
        return "".join(activity.last_failure.message for activity in pending)

    async def reset_to_first_task(self) -> "Run":
        """Reset the run to its beginning, as `temporal workflow reset` does."""
        return await self.reset_to_task(0)

    async def reset_to_task(self, number: int) -> "Run":
        """Reset the run to a workflow task that it finished, counted from 0.

        Of a run that continued as new, to a task of its newest workflow run.
        """
        finished = [
            event.event_id
            for event in (await self.history()).events
            if event.HasField("workflow_task_completed_event_attributes")
        ]
        client, newest = self.bench.temporal, (await self.handle.describe()).run_id
        reset = await client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=self.name, run_id=newest),
                reason="test",
                request_id=uuid.uuid4().hex,
                workflow_task_finish_event_id=finished[number],
            )
        )
        handle: WorkflowHandle[Any, RunResult] = client.get_workflow_handle(
            self.name, run_id=reset.run_id, result_type=RunResult
        )
        return Run(self.bench, self.name, handle)

    async def activities(self) -> list[str]:
        """Types of the activities that were scheduled, in order."""
        events = (await self.history()).events
        scheduled = [e.activity_task_scheduled_event_attributes.activity_type.name for e in events]
        return [name for name in scheduled if name]

    async def most_attempts(self) -> int:
        """Highest attempt number of any activity of the run."""
        events = (await self.history()).events
        return max(e.activity_task_started_event_attributes.attempt for e in events)

    async def witness(self) -> str:
        """Nonce of the witness that the run's first activity left in history."""
        events = (await self.history()).events
        done = [e for e in events if e.HasField("activity_task_completed_event_attributes")]
        payload = done[0].activity_task_completed_event_attributes.result.payloads[0]
        return Opening.model_validate_json(payload.data).witness.nonce

    async def last_activity_result(self) -> str:
        """Outcome in the result of the run's last activity."""
        events = (await self.history()).events
        done = [e for e in events if e.HasField("activity_task_completed_event_attributes")]
        payload = done[-1].activity_task_completed_event_attributes.result.payloads[0]
        return RunResult.model_validate_json(payload.data).outcome

    async def replay(self) -> None:
        """Replay the histories of all its workflow runs from their beginnings."""
        converter = self.bench.temporal.data_converter
        replayer = Replayer(
            workflows=[AgentWorkflow], data_converter=converter, unsandboxed_workflow_runner=SANDBOX
        )
        for history in await self.chain():
            await replayer.replay_workflow(history)


def app_of(*tools: Any, **options: Any) -> App:
    """Make an app with one agent, `tester`."""
    return App(Agent("tester", model=MODEL, tools=tools, **options))
