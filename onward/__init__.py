"""Onward: Claude agents that survive crashes. Everything an app module needs is here."""

from onward.agents import Agent, App
from onward.errors import NotSent, Rejected
from onward.messages import Limits
from onward.tools.context import ToolContext
from onward.tools.decorator import tool

__all__ = ["Agent", "App", "Limits", "NotSent", "Rejected", "ToolContext", "tool"]
