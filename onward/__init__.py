"""Onward: Claude agents that survive crashes. Everything an app module needs is here."""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "Agent",
    "App",
    "Limits",
    "NotSent",
    "OnwardPlugin",
    "Rejected",
    "Rule",
    "ToolContext",
    "WaitingNotice",
    "run_agent",
    "tool",
]

if TYPE_CHECKING:
    from onward.agents import Agent, App
    from onward.child import run_agent
    from onward.errors import NotSent, Rejected
    from onward.messages import Limits
    from onward.notices import WaitingNotice
    from onward.plugin import OnwardPlugin
    from onward.rules import Rule
    from onward.tools.context import ToolContext
    from onward.tools.decorator import tool
else:
    _HOMES = {
        "Agent": "onward.agents",
        "App": "onward.agents",
        "Limits": "onward.messages",
        "NotSent": "onward.errors",
        "OnwardPlugin": "onward.plugin",
        "Rejected": "onward.errors",
        "Rule": "onward.rules",
        "ToolContext": "onward.tools.context",
        "WaitingNotice": "onward.notices",
        "run_agent": "onward.child",
        "tool": "onward.tools.decorator",
    }

    def __getattr__(name: str) -> object:
        # Imported when asked for: what defines an agent loads for longer than `--help` may take.
        if name not in _HOMES:
            raise AttributeError(f"module 'onward' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)
