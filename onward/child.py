"""An agent's run as a part of a team's own workflow."""

from collections.abc import Mapping

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ParentClosePolicy

from onward import run_input
from onward.errors import UsageError
from onward.messages import LimitOverrides, RunRequest, RunResult
from onward.names import WORKFLOW
from onward.starting import TASK_TIMEOUT, memo, summary
from onward.tags import as_texts, parse_tags

_deployments = dict[tuple[str, str], str]()
"""By namespace and task queue: one process may have two workers, each with settings of its own."""


def in_deployment(name: str, namespace: str, task_queue: str) -> None:
    """Say what children of a worker's workflows put into their keys; the plugin does."""
    # A workflow may not read the environment. Its replay does not compare what a child was given.
    _deployments[namespace, task_queue] = name


async def run_agent(
    agent: str,
    prompt: str,
    *,
    id: str,  # noqa: A002  (as Temporal's own `execute_child_workflow` calls it)
    model: str | None = None,
    limits: LimitOverrides | None = None,
    tags: Mapping[str, str] | None = None,
    task_queue: str | None = None,
) -> RunResult:
    """Run an agent as a child of the workflow that calls this, to its end, whatever that is.

        refunds = await run_agent("refunds", "Refund order A-17.", id=f"{order}-refund")
        if refunds.outcome == "completed": ...

    A cancel of the workflow reaches the run, which then ends cleanly; so does the workflow's own
    end. A workflow that runs several should ask for each under an id of its own.

    Args:
        agent: one of the app's.
        prompt: what it is to do.
        id: names the job, and is refused where a run has it already: make it of the workflow's own.
        model: instead of the agent's own.
        limits: those that are set hold instead of the agent's own.
        tags: what people find the run by.
        task_queue: where workers with the agent poll; None: the workflow's own.

    Raises:
        ApplicationError: of type `usage` for what is not possible, of type `already_started` where
            a run has the id. Neither is retried.
        ChildWorkflowError: the run was cancelled, or somebody terminated it: it has no result.

    """
    request = _request(prompt, agent, model, limits, tags)
    try:
        result: RunResult = await workflow.execute_child_workflow(
            WORKFLOW,
            request,
            id=_checked_id(id),
            result_type=RunResult,
            task_queue=task_queue,
            task_timeout=TASK_TIMEOUT,
            # Terminated it could close nothing in the ledger, and leave calls in doubt.
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            memo=memo(request, workflow.now()),
            static_summary=summary(request),
        )
    except WorkflowAlreadyStartedError as error:
        raise _failure(
            f"a run has the id {id!r} already, and an id stands for one job. Use another, or look "
            f"at that run: onward status {id!r}",
            "already_started",
        ) from error
    except ChildWorkflowError as error:
        if (failed := _result_in(error)) is None:
            raise
        return failed
    return result


def _request(
    prompt: str,
    agent: str,
    model: str | None,
    limits: LimitOverrides | None,
    tags: Mapping[str, str] | None,
) -> RunRequest:
    here = workflow.info()
    try:
        return RunRequest(
            prompt=run_input.checked_text(prompt),
            agent=run_input.checked_agent(agent),
            model=model,
            limits=limits or LimitOverrides(),
            tags=parse_tags(as_texts(tags or {})),
            deployment=_deployments.get((here.namespace, here.task_queue), ""),
        )
    except (UsageError, ValidationError) as error:
        raise _failure(str(error), "usage") from error


def _checked_id(run_id: str) -> str:
    try:
        return run_input.checked_id(run_id)
    except UsageError as error:
        raise _failure(str(error), "usage") from error


def _failure(text: str, kind: str) -> ApplicationError:
    # Any other error would fail the workflow's task, again and again.
    return ApplicationError(text, type=kind, non_retryable=True)


def _result_in(error: ChildWorkflowError) -> RunResult | None:
    """Find the result that a failed run leaves in its failure."""
    cause = error.cause
    if not isinstance(cause, ApplicationError) or cause.type != "failed" or not cause.details:
        return None
    return RunResult.model_validate(cause.details[0])
