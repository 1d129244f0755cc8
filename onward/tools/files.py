"""The file tools of the built-in `coder`: the SDK's agent toolset, confined to the workspace.

`read`, `glob` and `grep` change nothing. `write` and `edit` are keyed: the SDK's tool works on a
scratch copy, and `onward.tools.edits` puts the result in place exactly once.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from onward.errors import Rejected
from onward.tools import searching
from onward.tools.context import ToolContext
from onward.tools.decorator import tool
from onward.tools.edits import Change, Journal, digest, reason
from onward.tools.workspace import FOLDER

MAX_EDITED_BYTES = 256 * 1024
"""The SDK's own limit of `edit`."""

FilePath = Annotated[str, Field(min_length=1, description="Relative to the workspace.")]
Lines = Annotated[list[int], Field(min_length=2, max_length=2)]


@tool(effect="read")
async def read(file_path: FilePath, ctx: ToolContext, view_range: Lines | None = None) -> object:
    """Read a text file or an image in the workspace.

    Args:
        view_range: First and last line, counted from 1; a last line of -1 is the end of the file.
            Use it for files of more than 60 KB.
    """
    root = workspace_of(ctx)
    _inside(root, "read", file_path)
    found = await _sdk("read", root, {"file_path": file_path, "view_range": view_range})
    if any(block.get("type") == "document" for block in _blocks(found)):
        raise Rejected(f"read: {file_path}: a PDF is not shown; extract its text with bash")
    return found


@tool(effect="keyed")
async def write(file_path: FilePath, content: str, ctx: ToolContext) -> str:
    """Write a whole file in the workspace, over what is there, creating folders as needed."""
    return await _change("write", ctx, file_path, {"content": content})


@tool(effect="keyed")
async def edit(
    file_path: FilePath,
    old_string: Annotated[str, Field(min_length=1)],
    new_string: str,
    ctx: ToolContext,
    replace_all: bool = False,
) -> str:
    """Replace text in a file in the workspace by exact match.

    Args:
        old_string: Must occur exactly once, unless replace_all is true.
    """
    given = {"old_string": old_string, "new_string": new_string, "replace_all": replace_all}
    return await _change("edit", ctx, file_path, given)


@tool(effect="read")
async def glob(pattern: str, ctx: ToolContext, path: str | None = None) -> str:
    """List files in the workspace that match a glob pattern, newest first.

    Args:
        pattern: Like `src/**/*.py`.
        path: Folder to search; the whole workspace if left out.
    """
    root = workspace_of(ctx)
    _inside(root, "glob", path or ".")
    found = await _sdk("glob", root, {"pattern": pattern, "path": path})
    return _without_own(root, str(found))


@tool(effect="read")
async def grep(pattern: str, ctx: ToolContext, path: str | None = None) -> str:
    """Search the text files of the workspace for a regular expression.

    Args:
        path: File or folder to search; the whole workspace if left out.
    """
    root = workspace_of(ctx)
    _inside(root, "grep", path or ".")
    if _has_ripgrep(root):
        return _without_own(root, str(await _sdk("grep", root, {"pattern": pattern, "path": path})))
    return _without_own(root, await _grep_apart(root, pattern, path))


def workspace_of(ctx: ToolContext) -> Path:
    """Return the call's workspace. Raises `Rejected` if the run has none."""
    if ctx.workspace is None:
        raise Rejected("This run has no workspace; it must be started with --workspace DIR.")
    return ctx.workspace.resolve()


async def _change(op: str, ctx: ToolContext, file_path: str, given: Mapping[str, object]) -> str:
    root = workspace_of(ctx)
    target = _inside(root, op, file_path)
    journal = Journal(root)
    change = journal.find(ctx.idempotency_key)
    if change is None:
        change = await _work_out(op, root, target, given)
        try:
            journal.write(ctx.idempotency_key, change)
        except OSError as error:
            raise Rejected(f"{op}: {change.path}: {reason(error)}; nothing was changed") from error
    return journal.make(change)


async def _work_out(op: str, root: Path, target: Path, given: Mapping[str, object]) -> Change:
    """Let the SDK's tool change a scratch copy of the file."""
    path = str(target.relative_to(root))
    try:
        _refuse_special(op, path, target)
        with tempfile.TemporaryDirectory(prefix="onward-") as name:
            scratch = Path(name)
            before = _copy(target, scratch / path) if op == "edit" else digest(target)
            message = await _sdk(op, scratch, {"file_path": path, **given})
            content = _content(scratch / path)
    except OSError as error:
        raise Rejected(f"{op}: {path}: {reason(error)}") from error
    except ValueError as error:  # text that is no UTF-8
        raise Rejected(f"{op}: {path}: {error}") from error
    return Change(path=path, before=before, content=content, message=str(message))


def _copy(target: Path, copy: Path) -> str:
    """Copy a file, if there is one; return the digest of what was copied."""
    if target.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(target.read_bytes())
    return digest(copy)


def _content(copy: Path) -> bytes:
    return copy.read_bytes()


def _refuse_special(op: str, path: str, target: Path) -> None:
    """Raise `Rejected` for what is no ordinary file, or too large."""
    if target.exists() and not target.is_file():
        raise Rejected(f"{op}: {path}: not a regular file")
    if op == "edit" and target.exists() and target.stat().st_size > MAX_EDITED_BYTES:
        raise Rejected(
            f"edit: {path} is {target.stat().st_size} bytes, more than the {MAX_EDITED_BYTES}"
            " that edit can change; use bash"
        )


def _inside(root: Path, op: str, path: str) -> Path:
    """Resolve a path, links followed, inside the workspace and outside Onward's own folder."""
    from anthropic.lib.tools.agent_toolset import AgentToolContext, resolve_path  # noqa: PLC0415

    try:
        target = resolve_path(AgentToolContext(workdir=root), path)
    except ValueError as error:  # outside, a loop of links, a NUL
        raise Rejected(f"{op}: {error}") from error
    # Some disks ignore letter case.
    own = str(root / FOLDER).casefold()
    if str(target).casefold() == own or str(target).casefold().startswith(f"{own}/"):
        raise Rejected(f"{op}: {path!r} belongs to Onward and is not for tools")
    return target


async def _sdk(name: str, root: Path, given: Mapping[str, object]) -> object:
    """Run one of the SDK's tools in a folder. Raises `Rejected` where it raises `ToolError`."""
    from anthropic.lib.tools import ToolError, agent_toolset  # noqa: PLC0415

    made = agent_toolset.beta_agent_toolset_20260401(agent_toolset.AgentToolContext(workdir=root))
    found = next(sdk_tool for sdk_tool in made if sdk_tool.name == name)
    try:
        return await found.call({key: value for key, value in given.items() if value is not None})
    except ToolError as error:
        raise Rejected(str(error)) from error


def _has_ripgrep(root: Path) -> bool:
    # The SDK's tool prefers it, unless it lies where the model could have put it.
    found = shutil.which("rg")
    return found is not None and not Path(found).resolve().is_relative_to(root)


async def _grep_apart(root: Path, pattern: str, path: str | None) -> str:
    """Search in a process of its own.

    Python's `re` holds the interpreter lock during a match, and a pattern like `(a+)+$` makes one
    match last for ever: on a thread it would stop the whole worker, heartbeats included.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", searching.__file__, str(root), pattern, path or "."),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Rejected(err.decode(errors="replace").strip() or "grep: the search was killed")
    return out.decode(errors="replace")


def _without_own(root: Path, listing: str) -> str:
    own = str(root / FOLDER)
    kept = [line for line in listing.split("\n") if not line.startswith((f"{own}/", f"{own}:"))]
    return "\n".join(line for line in kept if line != own) or "no matches"


def _blocks(found: object) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", found) if isinstance(found, list) else []
