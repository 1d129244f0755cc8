"""Start a run, or find the one that has its id already.

An id stands for one job: asked again, it is never done twice, whatever became of it. Only
`again=True` starts another run under the same id, and that run's idempotency keys are new.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from onward import history
from onward.chain import first_request
from onward.errors import NoSuchRun, UsageError
from onward.indexed import at_start
from onward.invoked import typed
from onward.messages import RunRequest, RunResult
from onward.names import WORKFLOW
from onward.runs import STARTED_MEMO, TAGS_MEMO, Run, describe, look, rpc_errors
from onward.search_attributes import usable
from onward.workers.pollers import polled

TASK_TIMEOUT = timedelta(seconds=3)
"""A workflow task on a killed worker is taken over after this; Temporal's default is 10 s."""
_ATTRIBUTE = "search attribute"
"""What Temporal names when it refuses a start for one that it does not know."""
SUMMARY_CHARS, MEMO_PROMPT_CHARS = 180, 200
DIFFERS_SHOWN_CHARS = 200

How = Literal["started", "attached", "ended"]
"""A new run; one that goes on already; one that has ended, and nothing was started."""


@dataclass(frozen=True)
class Started:
    """The run that has the id now, and how it came to be."""

    run: Run
    how: How


async def find(client: Client, run_id: str) -> Run | None:
    """Describe the run of that id, or None.

    Raises:
        UsageError: the id is that of a workflow which is not Onward's.

    """
    try:
        found = await look(client, run_id)
    except NoSuchRun:
        return None
    if found.type != WORKFLOW:
        raise UsageError(
            f"the id {run_id!r} belongs to a workflow of type {found.type!r} that is not "
            "Onward's. Use another --id"
        )
    return found


async def start(
    client: Client,
    run_id: str,
    request: RunRequest,
    *,
    task_queue: str,
    again: bool = False,
    before_new: Callable[[], Awaitable[None]],
) -> Started:
    """Start the run, or attach to the one of that id.

    Args:
        client: connected to the namespace in which the id is unique.
        run_id: the workflow's id.
        request: what is asked.
        task_queue: where workers poll.
        again: the id's last run has ended; start another one.
        before_new: called just before a new run is started, to refuse it by raising.

    Raises:
        UsageError: the id is another job's; or `again` and its run still goes on.
        ConnectError: Temporal does not answer.

    """
    found = await find(client, run_id)
    if found is not None:
        await _compare(client, found, request)
        if not again:
            return Started(found, "attached" if found.open else "ended")
        _refuse_running(found)
    await before_new()
    try:
        await _start_new(client, run_id, request, task_queue=task_queue, again=again)
    except WorkflowAlreadyStartedError:  # somebody else was faster
        found = await describe(client, run_id)
        await _compare(client, found, request)
        if again:
            _refuse_running(found)
        return Started(found, "attached" if found.open else "ended")
    return Started(await describe(client, run_id), "started")


async def pollers(
    client: Client, task_queue: str, *, since: datetime | None = None
) -> tuple[str, ...]:
    """Identities of the workers that polled the task queue since then, or in the last minutes."""
    return tuple(
        poller.identity
        for poller in await polled(client, task_queue)
        if since is None or poller.last >= since
    )


async def _start_new(
    client: Client, run_id: str, request: RunRequest, *, task_queue: str, again: bool
) -> None:
    reuse = WorkflowIDReusePolicy

    async def ask(known: Collection[str]) -> None:
        # No retry policy: a failed run must not do its effects again (field problem C20).
        await client.start_workflow(
            WORKFLOW,
            request,
            id=run_id,
            task_queue=task_queue,
            task_timeout=TASK_TIMEOUT,
            result_type=RunResult,
            id_reuse_policy=reuse.ALLOW_DUPLICATE if again else reuse.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo=memo(request, datetime.now(UTC)),
            static_summary=summary(request),
            search_attributes=at_start(request.agent, request.tags, known),
            rpc_timeout=history.RPC_TIMEOUT,
        )

    async with rpc_errors(run_id):
        try:
            await ask(await usable(client))
        except RPCError as error:
            if not _unknown_attribute(error):
                raise
            await ask(())


def _unknown_attribute(error: RPCError) -> bool:
    # Removed just now; or added just now, and not every one of Temporal's servers knows it.
    return error.status == RPCStatusCode.INVALID_ARGUMENT and _ATTRIBUTE in error.message


def memo(request: RunRequest, now: datetime) -> dict[str, Any]:
    """Write what lists show of a run that starts now."""
    return {
        "agent": request.agent,
        "prompt": _title(request)[:MEMO_PROMPT_CHARS],
        "workspace": request.workspace.path if request.workspace else "",
        "deployment": request.deployment,
        # Temporal knows when the newest workflow run of a chain began; this is handed on.
        STARTED_MEMO: now.isoformat(),
        TAGS_MEMO: request.tags,
    }


def summary(request: RunRequest) -> str:
    """Say in a line what a run is about."""
    return _title(request).strip().splitlines()[0][:SUMMARY_CHARS]


def _title(request: RunRequest) -> str:
    """Say what the run is about; a fork may have no words of its own."""
    return f"({_origin(request)}) {request.prompt}".strip() if request.fork else request.prompt


def _origin(request: RunRequest) -> str:
    fork = request.fork
    if fork is None:
        return "a run of its own"
    at = "its end" if fork.step is None else f"step {fork.step}"
    return f"fork of {fork.workflow_id} at {at}"


# ---- the same id again


async def _compare(client: Client, found: Run, request: RunRequest) -> None:
    async with rpc_errors(found.id):
        first = await first_request(client, found.first_key)
    if first is None:
        # Its first workflow run is older than the namespace's retention: what was carried along
        # names agent and folder, and the memo begins with the prompt.
        request = request.model_copy(update={"prompt": _title(request)[:MEMO_PROMPT_CHARS]})
    was = first or await _carried_request(client, found)
    given = [
        ("agent", was.agent, request.agent),
        ("workspace", _place(was), _place(request)),
        ("prompt", was.prompt, request.prompt),
        ("origin", _whole_origin(was), _whole_origin(request)),
    ]
    differing = [(name, old, new) for name, old, new in given if old != new]
    if differing:
        lines = [
            f"  its {name}: {_shown(old, new)}\n  your {name}: {_shown(new, old)}"
            for name, old, new in differing
        ]
        raise UsageError(
            f"the id {found.id!r} is that of another job:\n"
            + "\n".join(lines)
            + "\nUse another --id for this job, or ask for the same again"
        )


async def _carried_request(client: Client, found: Run) -> RunRequest:
    async with rpc_errors(found.id):
        newest = await history.request_of(client, found.key)
    if newest is None or newest.carried is None:
        raise UsageError(
            f"the id {found.id!r} belongs to a run whose request cannot be read; use another --id"
        )
    return newest.model_copy(update={"prompt": found.prompt})


def _whole_origin(request: RunRequest) -> str:
    # Another run may have the parent's id by now.
    fork = request.fork
    return f"{_origin(request)} ({fork.first_run_id})" if fork else _origin(request)


def _place(request: RunRequest) -> str:
    workspace = request.workspace
    return "none" if workspace is None else f"{workspace.path} (marker {workspace.id})"


def _shown(text: str, other: str) -> str:
    """Show the part of a text in which it differs from the other one."""
    same = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), None)
    first = min(len(text), len(other)) if same is None else same
    begin = max(0, first - 60) if len(text) > DIFFERS_SHOWN_CHARS else 0
    part = text[begin : begin + DIFFERS_SHOWN_CHARS]
    more = "" if begin + DIFFERS_SHOWN_CHARS >= len(text) else " …"
    return f"{'… ' if begin else ''}{part!r}{more}"


def _refuse_running(found: Run) -> None:
    if found.open:
        raise UsageError(
            f"the run {found.id!r} still goes on, so it cannot be started again. Leave --again out "
            f"to attach to it, or end it first: `{typed('cancel', found.id)}`"
        )
