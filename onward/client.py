"""What a person can do with runs, over a connection to Temporal; nothing here prints."""

from onward.connection import Target, configured_target, connect, find_target

__all__ = ["Target", "configured_target", "connect", "find_target"]
