"""Onward's own workflows, activities and commands, wherever they stand.

In a checkout they are beside the package, under their plain names. In an installed Onward they are
in `onward.app`: a team that runs Temporal has a `workflows` and a `worker` of its own, and in its
folder those are what the plain names mean. So our own never import each other by them.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from onward.errors import AppError

_PACKAGE = Path(__file__).parent


@cache
def home() -> str:
    """Say what their names begin with: `onward.app.` if installed, else nothing."""
    return "onward.app." if (_PACKAGE / "app").is_dir() else ""


def own(name: str) -> ModuleType:
    """Import a module of ours: `workflows.agent`, `activities.tools`, `worker`.

    Raises AppError where, beside a checkout, somebody else's has that name.
    """
    module = import_module(f"{home()}{name}")
    found = Path(module.__file__ or "")
    if not found.is_relative_to(_PACKAGE.parent):
        top = name.partition(".")[0]
        raise AppError(
            f"{str(found)!r} has the name {top!r}, which is Onward's own where it runs from a "
            "checkout. Install Onward (`pip install` of its folder or wheel): then both have room"
        )
    return module
