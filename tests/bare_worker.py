"""A worker of agents whose services a test makes itself: what a start looks at is left out."""

from typing import Any

from temporalio.worker import Worker

from activities.every import activities_of
from activities.services import Services
from onward.plugin.options import BEAT, DRAIN, STICKY
from workflows.agent import AgentWorkflow


def build_worker(services: Services, task_queue: str, **options: Any) -> Worker:
    """Make a worker tuned as the plugin tunes one; `options` go to `temporalio.worker.Worker`."""
    defaults: dict[str, Any] = {
        "max_concurrent_activities": 200,
        "graceful_shutdown_timeout": DRAIN,
        "max_heartbeat_throttle_interval": BEAT,
        "default_heartbeat_throttle_interval": BEAT,
        "sticky_queue_schedule_to_start_timeout": STICKY,
        "build_id": "onward-test",
    }
    return Worker(
        services.temporal,
        task_queue=task_queue,
        workflows=[AgentWorkflow],
        activities=activities_of(services),
        **(defaults | options),
    )
