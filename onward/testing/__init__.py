"""What Onward's own tests and demo are built on, for the tests of your agents too.

Real servers, a worker that can be killed or paused at a named point, and the other side of the
wire: a payments service whose books show what really happened.

    async with temporal_server(None) as temporal, redis_server(None) as redis:
        worker = await WorkerProcess.start(
            {"TEMPORAL_ADDRESS": temporal.address, "ONWARD_REDIS_URL": redis.url}
            | {"FP": "f6:1:kill"},
            log=tmp_path / "worker.log",
        )

A tool's own unit test calls the tool and needs none of this but `tool_context()`. Claude's side of
the wire is in `onward.testing.messages_api`. Servers and services need the extra `local`.
"""

from onward.local_services import RedisServer, TemporalServer, redis_server, temporal_server
from onward.testing.contexts import tool_context
from onward.testing.payments import Arrival, Effect, PaymentsProcess, payments_service
from onward.testing.processes import (
    ManagedProcess,
    ProcessFailed,
    ServiceProcess,
    WorkerProcess,
    clean_env,
    wait_until,
)

__all__ = [
    "Arrival",
    "Effect",
    "ManagedProcess",
    "PaymentsProcess",
    "ProcessFailed",
    "RedisServer",
    "ServiceProcess",
    "TemporalServer",
    "WorkerProcess",
    "clean_env",
    "payments_service",
    "redis_server",
    "temporal_server",
    "tool_context",
    "wait_until",
]
