"""Runs, as Temporal's server describes them.

Nothing here prints. Temporal's own errors come out as Onward's: `NoSuchRun`, `ConnectError`.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState
from temporalio.api.enums.v1 import WorkflowExecutionStatus as Status
from temporalio.api.workflow.v1 import PendingActivityInfo, WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from onward import history
from onward.errors import ConnectError, NoSuchRun, UsageError
from onward.history import Ended, RunKey
from onward.indexed import Indexed, indexed
from onward.invoked import typed, worker
from onward.names import WORKFLOW

STARTED_MEMO, TAGS_MEMO = "started", "tags"
FAILING = "failing"
"""State of an open run whose workflow's code fails on its worker, as Temporal's index says."""
_PAUSED = "Paused"
_CLOSED = {"Canceled": "cancelled", "Timed out": "timed_out"}
"""Our words for those of Temporal's that are not ours in small letters."""


@dataclass(frozen=True)
class Pending:
    """An activity that is not done."""

    name: str
    attempt: int
    running: bool
    """False: no worker has it right now."""
    last_failure: str = ""
    """Why the attempt before this one failed."""
    next_try: datetime | None = None
    """When it is tried again, if it waits for that."""
    activity_id: str = ""


@dataclass(frozen=True)
class Run:
    """A run as Temporal's server describes it."""

    id: str
    run_id: str
    first_run_id: str
    type: str
    status: str
    """Temporal's word: `Running`, `Completed`, `Failed`, `Canceled`, `Terminated`, …"""
    started: datetime
    """When the run was asked for, by its memo: the same in each workflow run of its chain. Without
    one, when this workflow run began.
    """
    closed: datetime | None
    task_queue: str
    agent: str = ""
    prompt: str = ""
    """Its first 200 characters."""
    outcome: str = ""
    """Of an ended run, where Temporal's index knows it."""
    waits_for: str = ""
    """Of an open run, by `OnwardWaiting`: the `approval`, `doubt` or `limit` that a person is asked
    about."""
    pending: tuple[Pending, ...] = ()
    task_waiting: bool = False
    """The workflow's next task lies on the queue: no worker has taken it."""
    task_attempt: int = 0
    """Above 1: the workflow's code fails on its worker, again and again."""
    reset: bool = False
    """In a list: it was reset, and goes on as another run of the list."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """As those by which it was started said, or its workflow; so is `agent`."""
    indexed: Indexed = field(default_factory=Indexed)

    @property
    def open(self) -> bool:
        """It goes on, or would with a worker."""
        return self.status in {"Running", _PAUSED}

    @property
    def state(self) -> str:
        """How it stands, a word: `RunStatus.state`, an outcome, `failing`, `terminated`, `reset`.

        As far as its description tells. `completed` may be another outcome where Temporal's index
        does not know: `listing.with_outcomes` asks history.
        """
        if self.reset:
            return "reset"
        if not self.open:
            return self.outcome or _CLOSED.get(self.status, self.status.lower())
        going = FAILING if self.indexed.failing else self.indexed.status or "running"
        return "waiting" if going == "running" and self.waits_for else going

    @property
    def key(self) -> RunKey:
        """This run, exactly."""
        return RunKey(self.id, self.run_id)

    @property
    def first_key(self) -> RunKey:
        """The beginning of its chain of resets and continuations."""
        return RunKey(self.id, self.first_run_id or self.run_id)


@asynccontextmanager
async def rpc_errors(run_id: str = "") -> AsyncGenerator[None, None]:
    """Turn Temporal's errors inside the block into Onward's.

    Raises:
        NoSuchRun: Temporal does not know the run, or no longer.
        ConnectError: it does not answer, or does not let us.
        UsageError: it refuses what was asked.

    """
    try:
        yield
    except RPCError as error:
        match error.status:
            case RPCStatusCode.NOT_FOUND:
                raise NoSuchRun(
                    f"Temporal knows no run {run_id!r}. `{typed('list')}` shows those it knows; "
                    "closed runs are forgotten after the namespace's retention"
                ) from error
            case RPCStatusCode.INVALID_ARGUMENT | RPCStatusCode.FAILED_PRECONDITION:
                raise UsageError(f"Temporal refuses this: {error.message}") from error
            case status:
                raise ConnectError(
                    f"Temporal did not answer ({status.name.lower()}: {error.message}). Nothing "
                    "is lost: runs go on when it is back. An embedded one comes back with "
                    f"`{worker('--local')}`"
                ) from error


async def describe(client: Client, run_id: str) -> Run:
    """Describe the newest run of that id.

    Raises:
        NoSuchRun: there is none, or it is no run of Onward's.
        ConnectError: Temporal does not answer.

    """
    return onwards_own(await look(client, run_id))


def onwards_own(run: Run) -> Run:
    """Return what was found, if it is a run of Onward's. Raises NoSuchRun."""
    if run.type != WORKFLOW:
        raise NoSuchRun(
            f"{run.id!r} is a workflow of type {run.type!r}, not a run of Onward's ({WORKFLOW!r}). "
            f"`{typed('list')}` shows Onward's runs"
        )
    return run


async def look(client: Client, workflow_id: str, run_id: str = "") -> Run:
    """Describe a workflow of whatever type: the newest one of that id, or exactly one run.

    Raises:
        NoSuchRun: there is none.
        ConnectError: Temporal does not answer.

    """
    # The raw call: the SDK's own raises ValueError on a run that was paused in Temporal.
    async with rpc_errors(workflow_id):
        answer = await client.workflow_service.describe_workflow_execution(
            DescribeWorkflowExecutionRequest(
                namespace=client.namespace,
                execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            ),
            timeout=history.RPC_TIMEOUT,
        )
    run = await run_of(client, answer.workflow_execution_info)
    return await _with_pending(client, run, answer)


async def ended(client: Client, run: Run) -> Ended | None:
    """Say how the run ended; None while it is open."""
    async with rpc_errors(run.id):
        return None if run.open else await history.ended(client, run.key)


# ---- from Temporal's words to ours


async def run_of(client: Client, info: WorkflowExecutionInfo) -> Run:
    """Describe a workflow run from what the server says of it."""
    memo = await _memo(client, info.memo.fields, "agent", "prompt", STARTED_MEMO, TAGS_MEMO)
    told, closed = indexed(info.search_attributes), _time(info.close_time)
    return Run(
        id=info.execution.workflow_id,
        run_id=info.execution.run_id,
        first_run_id=info.first_run_id,
        type=info.type.name,
        status=_words(Status.Name(info.status), "WORKFLOW_EXECUTION_STATUS_"),
        started=_started(info, memo.get(STARTED_MEMO)),
        closed=closed,
        task_queue=info.task_queue,
        agent=str(memo.get("agent", "")) or told.agent,
        prompt=str(memo.get("prompt", "")),
        outcome=told.outcome if closed else "",
        waits_for="" if closed else told.waits_for,
        tags=_tags(memo.get(TAGS_MEMO)) or told.tags,
        indexed=told,
    )


def _tags(memo: Any) -> dict[str, str]:
    # A workflow that is not ours may have something else there.
    told = cast("dict[str, Any]", memo) if isinstance(memo, dict) else {}
    return {name: str(value) for name, value in told.items()}


async def _with_pending(client: Client, run: Run, answer: DescribeWorkflowExecutionResponse) -> Run:
    task = answer.pending_workflow_task
    scheduled = PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
    return replace(
        run,
        pending=tuple([await _pending(client, info) for info in answer.pending_activities]),
        task_waiting=answer.HasField("pending_workflow_task") and task.state == scheduled,
        task_attempt=task.attempt,
    )


async def _pending(client: Client, info: PendingActivityInfo) -> Pending:
    failure = ""
    if info.HasField("last_failure"):
        failure = await history.failure_text(client, history.told(info.last_failure))
    return Pending(
        name=info.activity_type.name,
        attempt=info.attempt,
        running=info.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
        last_failure=failure,
        next_try=_time(info.next_attempt_schedule_time),
        activity_id=info.activity_id,
    )


async def _memo(client: Client, payloads: Mapping[str, Payload], *names: str) -> dict[str, Any]:
    found = dict[str, Any]()
    for name in names:
        if name in payloads:
            values = await client.data_converter.decode([payloads[name]])
            found[name] = values[0]
    return found


def _time(stamp: Timestamp) -> datetime | None:
    return stamp.ToDatetime(tzinfo=UTC) if stamp.seconds else None


def _started(info: WorkflowExecutionInfo, memo: str | None) -> datetime:
    # Lists do not say which workflow runs are one chain, so the memo holds for the first one too.
    if memo:
        return datetime.fromisoformat(memo)
    return _time(info.start_time) or datetime.now(UTC)


def _words(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).replace("_", " ").capitalize()
