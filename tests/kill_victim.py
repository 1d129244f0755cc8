"""The worker that a trial strikes: `onward-worker`'s own, forked, and alone with one call.

It is built straight from `build_worker`: what `worker.py` asks the servers first is no part of a
call. It prints `settled TOOL` when an attempt at a tool has ended, as a zombie's does late.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import crash_app
from bare_worker import build_worker
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    UnsandboxedWorkflowRunner,
)

from activities.services import Services
from onward import claude
from onward.redis_server.connection import redis_client

# The sandbox guards against workflows that are not deterministic, at half of a worker's cost; other
# tests look at that.
UNGUARDED: dict[str, Any] = {"unsandboxed_workflow_runner": UnsandboxedWorkflowRunner()}
# A task that the server hands to a paused process lies there until it times out. So the victim asks
# for nothing while it is in its call, and for one workflow task at most.
_ALONE = {
    "max_concurrent_activities": 1,
    "max_concurrent_workflow_task_polls": 1,
    "max_cached_workflows": 0,
}


@dataclass(frozen=True)
class Servers:
    """Where a trial's servers are."""

    temporal: str
    redis: str
    claude: str


def settled(tool: str) -> str:
    """Say that an attempt at a tool has ended, as the log does."""
    return f"settled {tool}\n"


def main(servers: Servers, queue: str, takeover_s: float) -> int:
    """Work on a task queue until killed."""
    asyncio.run(_work(servers, queue, takeover_s))
    return 0


async def _work(servers: Servers, queue: str, takeover_s: float) -> None:
    temporal = await Client.connect(servers.temporal, data_converter=pydantic_data_converter)
    async with (
        claude.client(base_url=servers.claude, api_key="test") as anthropic,
        redis_client(servers.redis) as redis,
    ):
        services = Services(
            app=crash_app.app,
            redis=redis,
            anthropic=anthropic,
            temporal=temporal,
            strict=True,
            takeover_s=takeover_s,
        )
        async with build_worker(services, queue, interceptors=[_Telling()], **_ALONE, **UNGUARDED):
            await asyncio.Event().wait()


class _Telling(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        return _TellingInbound(next)


class _TellingInbound(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        try:
            return await super().execute_activity(input)
        finally:
            print(settled(activity.info().activity_type), end="", flush=True)  # noqa: T201
