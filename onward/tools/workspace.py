"""A workspace is a folder on some host, told from others by a marker with an id.

The path alone says nothing: another host, or another checkout, may have a folder of the same name.
So `onward` puts `.onward/workspace.json` into the folder and its id into the run, and a worker
that does not find that id there hands the call back to one that does.
"""

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any, cast

from onward.errors import OnwardError, UsageError
from onward.messages import Workspace

FOLDER = ".onward"
"""Onward's own folder in a workspace: marker, journal of edits. No tool may touch it."""

_MARKER = "workspace.json"
_GIT_TIMEOUT_S = 60.0
_SHOWN_CHANGES = 10


class WorkspaceElsewhere(OnwardError):
    """This host does not have the run's workspace; a worker on another host must take the call."""


def prepare(path: str | Path, *, allow_dirty: bool = False) -> Workspace:
    """Make a folder a workspace, or recognise that it is one, and return its identity.

    Raises `UsageError` if it is no folder that can be read and written, or if it has uncommitted
    changes in git and `allow_dirty` is false: `git diff` is how the agent's work is reviewed.
    """
    folder = Path(path).expanduser().resolve()
    _refuse_unusable(folder)
    if not allow_dirty:
        _refuse_dirty(folder)
    try:
        return Workspace(path=str(folder), id=_mark(folder))
    except OSError as error:
        raise UsageError(
            f"Cannot mark {str(folder)!r} as a workspace ({error}); the folder must be writable"
        ) from error


def check(workspace: Workspace) -> Path:
    """Return the folder if it is here and is the one that the run began in.

    Raises `WorkspaceElsewhere`, which says what is here instead.
    """
    folder = Path(workspace.path)
    try:
        found = _read(_own_folder(folder) / _MARKER)
    except FileNotFoundError:
        what = "it has no marker" if folder.is_dir() else "there is no such folder"
        raise WorkspaceElsewhere(_elsewhere(workspace, what)) from None
    except (OSError, UsageError) as error:
        raise WorkspaceElsewhere(_elsewhere(workspace, str(error))) from error
    if found != workspace.id:
        raise WorkspaceElsewhere(_elsewhere(workspace, f"its marker has the id {found!r}"))
    return folder


def _refuse_unusable(folder: Path) -> None:
    if not folder.exists():
        raise UsageError(f"The workspace {str(folder)!r} does not exist; create the folder first")
    if not folder.is_dir():
        raise UsageError(f"The workspace {str(folder)!r} is not a folder")
    lacking = [
        word
        for mode, word in ((os.R_OK, "read"), (os.W_OK, "written"), (os.X_OK, "entered"))
        if not os.access(folder, mode)
    ]
    if lacking:
        raise UsageError(
            f"The workspace {str(folder)!r} cannot be {' or '.join(lacking)} by this user;"
            " change its permissions"
        )


def _refuse_dirty(folder: Path) -> None:
    changes = _changes(folder)
    if not changes:
        return
    shown = "\n".join(changes[:_SHOWN_CHANGES])
    more = f"\n… and {len(changes) - _SHOWN_CHANGES} more" if len(changes) > _SHOWN_CHANGES else ""
    raise UsageError(
        f"The workspace {str(folder)!r} has changes that are not committed:\n{shown}{more}\n"
        "Commit or stash them, so that `git diff` shows what the agent did and nothing else;"
        " or pass --allow-dirty"
    )


def _changes(folder: Path) -> list[str]:
    """List uncommitted changes in the folder; none if git does not look after it."""
    # Git's own variables would point it at another repository than the folder's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        status = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain", "--", "."],
            env=environment | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_GIT_TIMEOUT_S,
        )
    except FileNotFoundError:
        return []  # no git on this host: nothing to review with
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"`git status` in {str(folder)!r} took longer than {_GIT_TIMEOUT_S:g} s;"
            " pass --allow-dirty to do without it"
        ) from error
    said = status.stderr.decode(errors="replace").strip()
    if status.returncode != 0 and "not a git repository" not in said:
        raise UsageError(
            f"`git status` in {str(folder)!r} failed: {said}; mend that, or pass --allow-dirty"
        )
    return status.stdout.decode(errors="replace").splitlines() if status.returncode == 0 else []


def _mark(folder: Path) -> str:
    own = _own_folder(folder)
    own.mkdir(exist_ok=True)
    ignore = own / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")  # with this, the folder never makes the tree dirty
    marker = own / _MARKER
    if not marker.exists():
        _create(marker)
    return _read(marker)


def _create(marker: Path) -> None:
    """Write a new id. Two that do so at once get the same: the first link wins."""
    identity = uuid.uuid4().hex
    draft = marker.with_name(f"{_MARKER}.{identity}")
    draft.write_text(json.dumps({"id": identity}) + "\n")
    try:
        os.link(draft, marker)
    except FileExistsError:
        return
    finally:
        draft.unlink()


def _read(marker: Path) -> str:
    try:
        found: Any = json.loads(marker.read_text())
    except ValueError:
        found = None
    identity = cast("dict[str, Any]", found).get("id") if isinstance(found, dict) else None
    if not isinstance(identity, str) or not identity:
        raise UsageError(
            f"The marker {str(marker)!r} is not readable; delete it to make this a new workspace"
        )
    return identity


def _own_folder(folder: Path) -> Path:
    own = folder / FOLDER
    # A link would let whoever made the folder have our files written elsewhere.
    if own.is_symlink() or (own.exists() and not own.is_dir()):
        raise UsageError(f"{str(own)!r} is not a folder of Onward's; remove it")
    return own


def _elsewhere(workspace: Workspace, what: str) -> str:
    return (
        f"The workspace {workspace.path!r} with the id {workspace.id!r} is not on this host"
        f" ({what}); run a worker where it is"
    )
