"""Agents in a Temporal worker and client that a team has already: `onward.OnwardPlugin`."""

from onward.plugin.plugin import OnwardPlugin

__all__ = ["OnwardPlugin"]
