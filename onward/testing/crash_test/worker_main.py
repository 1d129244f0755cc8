"""The crash test's worker: `onward-worker`'s own, alone with one call.

It prints `settled TOOL` when an attempt at a tool has ended, as a zombie's does late.
"""

from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
)

from onward.own_code import own


def settled(tool: str) -> str:
    """Say that an attempt at a tool has ended, as the worker's log does."""
    return f"settled {tool}\n"


class Telling(Interceptor):
    """Prints when an attempt has ended, whatever became of it."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """Listen to one worker's attempts."""
        return _TellingInbound(next)


class _TellingInbound(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        try:
            return await super().execute_activity(input)
        finally:
            print(settled(activity.info().activity_type), end="", flush=True)  # noqa: T201


# A task that the server hands to a paused process lies there until it times out. So a worker asks
# for no other activity while it is in its call, and for one workflow task at most.
ALONE: dict[str, Any] = {
    "max_concurrent_activities": 1,
    "max_concurrent_workflow_task_polls": 1,
    "max_cached_workflows": 0,
}


def _alone(client: Client, **options: Any) -> Worker:
    return Worker(client, interceptors=[Telling()], **{**options, **ALONE})


def main() -> int:
    """Work until killed; returns the exit code of a worker that could not start."""
    worker: Any = own("worker")
    worker.Worker = _alone
    return int(worker.main([]))
