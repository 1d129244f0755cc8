"""Onward's own workflows, activities and commands, wherever they stand.

In a checkout they are beside the package, under their plain names. In an installed Onward they are
in `onward.app`: a team that runs Temporal has a `workflows` and a `worker` of its own, and in its
folder those are what the plain names mean. So our own never import each other by them.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from onward.errors import AppError

_PACKAGE = Path(__file__).parent
ROOT = _PACKAGE.parent
"""The checkout, or what Onward is installed in."""
NAMES = ("workflows", "activities", "worker", "starter")


@cache
def home() -> str:
    """Say what their names begin with: `onward.app.` if installed, else nothing."""
    return "onward.app." if (_PACKAGE / "app").is_dir() else ""


def own(name: str) -> ModuleType:
    """Import a module of ours: `workflows.agent`, `activities.tools`, `worker`.

    Raises AppError where, beside a checkout, somebody else's has that name.
    """
    if not home():
        _refuse_theirs(name.partition(".")[0])
    return import_module(f"{home()}{name}")


def refuse_ours(module: str) -> None:
    """Raise AppError for a module of somebody's that cannot be, since its name is our own."""
    top = module.partition(".")[0]
    if not home() and top in NAMES:
        raise AppError(f"There is no module {module!r} for an app: {_why(top)}")


def _refuse_theirs(top: str) -> None:
    # Looked for before it is imported: somebody's `worker` may start one.
    spec = find_spec(top)
    if spec and spec.origin and not Path(spec.origin).is_relative_to(ROOT):
        raise AppError(f"{spec.origin!r} is in the way: {_why(top)}")


def _why(top: str) -> str:
    return (
        f"Onward runs from a checkout, where {top!r} is its own. Install Onward (`pip install` of "
        "its folder or wheel), then both have room"
    )


def command(name: str) -> list[str]:
    """Write the command line of `worker` or `starter` as a process of its own."""
    if home():  # -P: what is in the folder where it starts must not stand in for a library
        return [sys.executable, "-P", "-m", f"{home()}{name}"]
    return [sys.executable, str(ROOT / f"{name}.py")]
