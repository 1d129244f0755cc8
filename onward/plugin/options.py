"""How a worker must be set up so that a killed one is taken over in seconds."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

DRAIN = timedelta(seconds=25)
"""How long SIGTERM lets activities finish: just under the 30 s that container platforms give."""
STICKY, _TEMPORALS_STICKY = timedelta(seconds=1), timedelta(seconds=10)
BEAT = timedelta(milliseconds=250)
"""Heartbeats reach the server at most this late, and a cancel reaches an activity as fast."""
_AS_THEY_ARE = ("onward", "redis", "anthropic", "httpx2")
"""And clients of ours: the garbage collector may end one in a workflow, which imports some more."""


def tuned(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Set what was left at Temporal's defaults; what somebody chose stays, if agents bear it."""
    ours: dict[str, Any] = {
        "max_heartbeat_throttle_interval": min(given["max_heartbeat_throttle_interval"], BEAT),
        "default_heartbeat_throttle_interval": min(
            given["default_heartbeat_throttle_interval"], BEAT
        ),
        "graceful_shutdown_timeout": given["graceful_shutdown_timeout"] or DRAIN,
        "workflow_runner": knowing_us(given["workflow_runner"]),
    }
    # A killed worker's runs go on elsewhere after this long, not after ten seconds.
    if given["sticky_queue_schedule_to_start_timeout"] == _TEMPORALS_STICKY:
        ours["sticky_queue_schedule_to_start_timeout"] = STICKY
    return {**given, **ours}


def knowing_us(runner: object) -> object:
    """Let sandboxed workflows import Onward as it is: loading it anew for each takes a second."""
    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner
    return replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*_AS_THEY_ARE))
