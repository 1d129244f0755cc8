"""Find a tool, or a probe's function, by `module:name`."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any, cast

from onward.errors import UsageError
from onward.tools import Tool

SPEC = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<name>\w+)")


def load(spec: str) -> Any:
    """Return what `module:name` names; the current directory is importable. Raises UsageError."""
    parts = SPEC.fullmatch(spec)
    if parts is None:
        raise UsageError(f"{spec!r} is not of the form 'module:name', as in 'refunds:refund'")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(parts["module"])
    except (Exception, SystemExit) as error:  # importing runs whatever the module holds
        raise UsageError(
            f"{spec!r}: module {parts['module']!r} cannot be imported ({type(error).__name__}: "
            f"{error}); looked in {here!r} and in what is installed"
        ) from error
    if not hasattr(module, parts["name"]):
        raise UsageError(f"{spec!r}: module {parts['module']!r} has no {parts['name']!r}")
    return getattr(module, parts["name"])


def load_tool(spec: str) -> Tool[..., Any]:
    """Return the tool that `module:name` names. Raises UsageError."""
    found = load(spec)
    if isinstance(found, Tool):
        return cast("Tool[..., Any]", found)
    raise UsageError(f"{spec!r} is {found!r} and no tool; decorate the function with @tool")


def spec_of(tool: Tool[..., Any]) -> str:
    """Name a tool so that a worker finds it. Raises UsageError where none would."""
    module = tool.__module__
    spec = f"{module}:{tool.name}"
    if module == "__main__" or load(spec) is not tool:
        raise UsageError(
            f"workers cannot import tool {tool.name!r} as {spec!r}: define it at the top of a "
            "module, under its own name"
        )
    return spec
