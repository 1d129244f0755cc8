"""Tools: what Claude may ask for, what runs when it does, and what it is told."""

from onward.tools.context import ToolContext
from onward.tools.decorator import Tool, tool
from onward.tools.exceptions import Meaning, meaning
from onward.tools.inputs import check
from onward.tools.results import error_content, show, to_content

__all__ = [
    "Meaning",
    "Tool",
    "ToolContext",
    "check",
    "error_content",
    "meaning",
    "show",
    "to_content",
    "tool",
]
