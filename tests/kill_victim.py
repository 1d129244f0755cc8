"""The worker that a trial strikes: `onward-worker`'s own, forked, and alone with one call.

It is built straight from `build_worker`: what `worker.py` asks the servers first is no part of a
call. It prints `settled TOOL` when an attempt at a tool has ended, as a zombie's does late.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import crash_app
from bare_worker import build_worker
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner

from activities.services import Services
from onward import claude
from onward.redis_server.connection import redis_client
from onward.testing.crash_test.worker_main import ALONE, Telling

# The sandbox guards against workflows that are not deterministic, at half of a worker's cost; other
# tests look at that.
UNGUARDED: dict[str, Any] = {"unsandboxed_workflow_runner": UnsandboxedWorkflowRunner()}


@dataclass(frozen=True)
class Servers:
    """Where a trial's servers are."""

    temporal: str
    redis: str
    claude: str


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
        async with build_worker(services, queue, interceptors=[Telling()], **ALONE, **UNGUARDED):
            await asyncio.Event().wait()
