"""What can be told of a run right now: its worker is asked, and its history where none answers.

Nothing here prints. Temporal's own errors come out as Onward's: `NoSuchRun`, `ConnectError`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.service import RPCError

from onward import history
from onward.history import Ended
from onward.messages import RunStatus, Spend
from onward.runs import Run, ended, rpc_errors

QUERY_TIMEOUT = timedelta(seconds=3)
_OTHER_CODE = "[TMPRL1100]"
"""What the SDK calls a history that the workflow's code cannot have written."""

Answer = TypeVar("Answer", RunStatus, Spend)


@dataclass(frozen=True)
class Report:
    """Everything that can be told about a run right now."""

    run: Run
    status: RunStatus
    live: bool
    """True: a worker answered, or the run has ended; False: told from history alone."""
    trouble: str = ""
    """Why no worker answered."""
    ended: Ended | None = None


@dataclass(frozen=True)
class Spent:
    """What a run cost so far."""

    spend: Spend
    complete: bool
    """False: only what its finished steps cost; nobody could be asked about the rest."""


async def report(client: Client, run: Run) -> Report:
    """Ask the run's worker how it goes; without one, tell what history knows."""
    done = await ended(client, run)
    if done is not None:
        return await _report_of_ended(client, run, done)
    answer = await _query(client, run, "status", RunStatus)
    if isinstance(answer, RunStatus):
        return Report(run, answer, live=True)
    return await _report_of_history(client, run, answer)


async def spend(client: Client, run: Run, *, offline: bool = False) -> Spent:
    """Say what the run cost so far, by the query `spend`; without a worker, by its history.

    `offline`: no worker is asked at all.
    """
    done = await ended(client, run)
    if done is not None:
        return Spent(done.result.spend, done.spend_complete)
    answer = None if offline else await _query(client, run, "spend", Spend)
    if isinstance(answer, Spend):
        return Spent(answer, complete=True)
    async with rpc_errors(run.id):
        return Spent((await history.recorded(client, run.key)).spend, complete=False)


def code_fails(why: str) -> str:
    """Say why the workflow's code fails on its worker, and what helps where that is known."""
    if _OTHER_CODE not in why:
        return why
    return (
        f"{why.rstrip('.')}. The run's history was written by other code than this worker has: "
        "nothing is lost, and it goes on by itself under workers of the release before"
    )


# ---- a worker asked, or history


def _handle(client: Client, run: Run) -> WorkflowHandle[Any, Any]:
    return client.get_workflow_handle(run.id)


async def _query(client: Client, run: Run, name: str, kind: type[Answer]) -> Answer | str:
    """Answer of the query, or why there is none."""
    try:
        found = await _handle(client, run).query(name, result_type=kind, rpc_timeout=QUERY_TIMEOUT)
        return cast("Answer", found)
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
        return f"the worker cannot answer: {code_fails(str(error))}"
    except RPCError:
        return f"no worker of task queue {run.task_queue!r} answers"


async def _report_of_history(client: Client, run: Run, silent: str) -> Report:
    async with rpc_errors(run.id):
        recorded = await history.recorded(client, run.key)
    status = RunStatus(
        agent=recorded.request.agent if recorded.request else run.agent,
        state="waiting" if run.waits_for else "running",
        step=str(recorded.steps),
        steps=recorded.steps,
        doing="waiting for a worker",
        limits=recorded.opening.limits if recorded.opening else None,
        spend=recorded.spend,
        context=recorded.context,
        tags={**run.tags},
        model=run.indexed.model,
        workspace=recorded.request.workspace if recorded.request else None,
    )
    trouble = code_fails(recorded.task_failure) if recorded.task_failure else silent
    return Report(run, status, live=False, trouble=trouble)


async def _report_of_ended(client: Client, run: Run, done: Ended) -> Report:
    async with rpc_errors(run.id):
        request = await history.request_of(client, run.key)
        context = await history.last_context(client, run.key)
    status = RunStatus(
        agent=request.agent if request else run.agent,
        state="ended",
        step=str(done.result.steps),
        steps=done.result.steps,
        doing="",
        outcome=done.result.outcome,
        spend=done.result.spend,
        context=context,
        in_doubt=done.result.in_doubt,
        unseen=len(done.result.unseen),
        tags={**run.tags},
        model=run.indexed.model,
        workspace=request.workspace if request else None,
    )
    return Report(run, status, live=True, ended=done)
