"""Who polled a task queue in the last minutes, as Temporal remembers it."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from onward import history
from onward.runs import rpc_errors

LONGEST_POLL = timedelta(seconds=75)
"""A worker that lives has asked anew by then: a poll that finds nothing lasts a minute."""
_BUILD = re.compile(r"onward-(\d+\.\d+\..*)")


@dataclass(frozen=True)
class Poller:
    """A worker that asked for workflow tasks; it may be gone by now."""

    identity: str
    last: datetime
    """When it asked last, by Temporal's clock."""
    build_id: str
    """What it says of its code: `onward-0.6.0`; empty where it says nothing."""

    @property
    def release(self) -> str | None:
        """Of Onward, as `0.6.0`; None where it says of none."""
        found = _BUILD.fullmatch(self.build_id)
        return found[1] if found else None


async def polled(client: Client, task_queue: str) -> tuple[Poller, ...]:
    """Return who asked in the last five minutes. Raises ConnectError, UsageError."""
    async with rpc_errors():
        answer = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace, task_queue=TaskQueue(name=task_queue)
            ),
            timeout=history.RPC_TIMEOUT,
        )
    return tuple(
        Poller(
            identity=each.identity,
            last=each.last_access_time.ToDatetime(UTC),
            build_id=each.worker_version_capabilities.build_id,
        )
        for each in answer.pollers
    )
