"""Every activity of a worker."""

from collections.abc import Callable
from typing import Any

from .carry import CarryActivity
from .claude import ClaudeActivity
from .editing import EditActivity
from .fork import ForkActivity
from .lifecycle import LifecycleActivities
from .notify import NotifyActivity
from .refill import RefillActivity
from .resolve import ResolveActivity
from .services import Services
from .tools import ToolActivity


def activities_of(services: Services) -> list[Callable[..., Any]]:
    """Make the activities that a worker with these services registers."""
    lifecycle = LifecycleActivities(services)
    return [
        *(lifecycle.begin, lifecycle.end),
        ClaudeActivity(services).call_claude,
        RefillActivity(services).refill,
        CarryActivity(services).carry,
        ForkActivity(services).fork,
        ResolveActivity(services).resolve,
        EditActivity(services).edit_call,
        NotifyActivity(services).notify,
        ToolActivity(services).run_tool,
    ]
