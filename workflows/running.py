"""How an activity of a run is run: its time limits, its retries, and the run that it is told of."""

from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from onward import messages as m

from .labels import bounded
from .state import RunState

T = TypeVar("T", bound=m.Wire)

GRACE_S = 60.0
"""Seconds that an activity may take beyond its tool's own time limit, to record what happened."""
LONG_S = 3600.0
"""Longer than any reply streams; silence on the wire ends a request much sooner."""
FIXED_TAKEOVER_S = 10.0
"""Heartbeat timeout of activities that know no setting of the run yet, or any more."""
# Attempts are not limited here: a worker's death, a busy claim or a Redis that is away must not use
# up a step. What is bounded is requests sent, counted in the ledger (docs/decisions/0023).
_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=20)
)


def run_ref(state: RunState) -> m.RunRef:
    """Name the run that schedules an activity."""
    info = workflow.info()
    return m.RunRef(
        workflow_id=info.workflow_id,
        first_run_id=info.first_execution_run_id,
        run_id=info.run_id,
        original_run_id=info.original_execution_run_id or info.run_id,
        reset_lineage=state.reset_lineage,
        deployment=state.request.deployment or info.namespace,
    )


def now_ms() -> int:
    """Tell the time by the workflow's own clock, Unix ms."""
    return int(workflow.now().timestamp() * 1000)


def takeover_s(state: RunState) -> float:
    """Heartbeat timeout of the run's activities, seconds."""
    return state.opening.takeover_s if state.opening else FIXED_TAKEOVER_S


async def run_activity(
    state: RunState,
    name: str,
    given: m.Wire,
    result: type[T],
    summary: str,
    *,
    limit_s: float,
    heartbeat_s: float | None = None,
    retry: RetryPolicy = _RETRY,
) -> T:
    """Run an activity to its result; `heartbeat_s` is the run's own where none is given.

    Raises `ActivityError` when an attempt fails for good, or the run is cancelled.
    """
    state.working += 1
    try:
        done: Any = await workflow.execute_activity(
            name,
            given,
            result_type=result,
            summary=bounded(summary),
            start_to_close_timeout=timedelta(seconds=limit_s),
            heartbeat_timeout=timedelta(seconds=heartbeat_s or takeover_s(state)),
            retry_policy=retry,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
    finally:
        state.working -= 1
    return result.model_validate(done)
