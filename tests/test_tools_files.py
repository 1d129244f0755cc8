"""File tools: confined to the workspace, and an edit is made exactly once."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onward import Rejected, ToolContext, tool
from onward.tools import edits
from onward.tools.bash import bash
from onward.tools.edits import KEPT, Change, Journal, digest
from onward.tools.files import edit, glob, grep, read, write
from onward.tools.workspace import prepare

PNG = bytes.fromhex("89504e470d0a1a0a")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a workspace with a file in it."""
    (tmp_path / "ws").mkdir()
    prepare(tmp_path / "ws")
    (tmp_path / "ws/a.txt").write_text("one\ntwo\nthree\n")
    return tmp_path / "ws"


def names(folder: Path) -> list[str]:
    """List what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def use(used: Any, folder: Path, key: str = "onw_1", **given: object) -> Any:
    """Call a tool as a worker would."""
    context = ToolContext(idempotency_key=key, call="1.1", run="r", workspace=folder)
    return await used.run(given, context)


async def test_read_gives_text_lines_and_images(folder: Path) -> None:
    """Claude sees files as they are."""
    (folder / "p.png").write_bytes(PNG)
    assert await use(read, folder, file_path="a.txt") == "one\ntwo\nthree\n"
    assert await use(read, folder, file_path="a.txt", view_range=[2, 2]) == "two"
    (block,) = await use(read, folder, file_path="p.png")
    assert block["type"] == "image"


async def test_glob_and_grep_find_files_and_hide_ours(folder: Path) -> None:
    """Searches see the workspace without Onward's own folder."""
    await use(edit, folder, file_path="a.txt", old_string="two", new_string="2")
    (folder / "sub").mkdir()
    (folder / "sub/b.txt").write_text("id two\n")
    listing = await use(glob, folder, pattern="**/*")
    assert str(folder / "sub/b.txt") in listing.split("\n")
    assert ".onward" not in listing
    assert await use(grep, folder, pattern=r"two|id") == f"{folder}/sub/b.txt:1:id two"
    assert await use(glob, folder, pattern="*.none") == "no matches"
    with pytest.raises(Rejected, match=r"invalid regex|rg failed"):
        await use(grep, folder, pattern="(")


async def test_pattern_that_never_ends_stalls_no_worker(folder: Path) -> None:
    """A regular expression that backtracks for ever is stopped with its process."""
    (folder / "long.txt").write_text("a" * 500 + "!\n")
    context = ToolContext(idempotency_key="k", call="1.1", run="r", workspace=folder)
    endless = tool(effect="read", timeout_s=8)(grep.__wrapped__)
    with pytest.raises((Rejected, TimeoutError)):
        await endless.run({"pattern": "(a+)+$"}, context)


@pytest.mark.parametrize("used", [read, write, edit])
@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "out/x", "\x00", "half\ud800"])
async def test_paths_outside_are_refused(folder: Path, used: Any, path: str) -> None:
    """No file tool leaves the workspace, by whatever spelling or link."""
    (folder / "out").symlink_to(folder.parent)
    (folder.parent / "x").write_text("old")
    given = {"read": {}, "write": {"content": "new"}, "edit": {"old_string": "o", "new_string": ""}}
    with pytest.raises(Rejected):
        await use(used, folder, file_path=path, **given[used.name])
    assert (folder.parent / "x").read_text() == "old"


@pytest.mark.parametrize(
    "path", [".onward/workspace.json", "sub/../.onward/x", "link/x", ".ONWARD/x"]
)
async def test_our_own_folder_is_refused(folder: Path, path: str) -> None:
    """No tool forges the workspace's identity or its journal."""
    (folder / "link").symlink_to(".onward")
    for used, given in ((read, {}), (write, {"content": "x"})):
        with pytest.raises(Rejected, match="belongs to Onward"):
            await use(used, folder, file_path=path, **given)
    with pytest.raises(Rejected, match="belongs to Onward"):
        await use(grep, folder, pattern="id", path=".onward")


async def test_run_without_a_workspace_says_so(folder: Path) -> None:
    """Nothing is done in whatever directory the worker happens to be."""
    context = ToolContext(idempotency_key="k", call="1.1", run="r")
    for used, given in ((read, {"file_path": "a.txt"}), (bash, {"command": "touch here"})):
        with pytest.raises(Rejected, match="--workspace"):
            await used.run(given, context)
    assert not (folder / "here").exists()


async def test_repeated_edit_is_recognised_as_made(folder: Path) -> None:
    """A lost attempt's edit is not an error at the next: same key, same message, one change."""
    given = {"file_path": "a.txt", "old_string": "two", "new_string": "two two"}
    first = await use(edit, folder, **given)
    assert await use(edit, folder, **given) == first
    assert (folder / "a.txt").read_text() == "one\ntwo two\nthree\n"


async def test_other_call_with_the_same_input_is_another_edit(folder: Path) -> None:
    """Only the key tells a repeat; the same words at a later step are a new wish."""
    given = {"file_path": "a.txt", "old_string": "two", "new_string": "two two"}
    await use(edit, folder, "onw_1", **given)
    with pytest.raises(Rejected, match="appears 2 times"):
        await use(edit, folder, "onw_2", **given)


async def test_edit_lost_before_it_was_made_is_made_at_the_next_attempt(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between journal and file loses nothing."""
    given = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}

    class Crash(BaseException): ...

    def crash(*_: object) -> str:
        raise Crash

    with monkeypatch.context() as crashing:
        crashing.setattr(Journal, "make", crash)
        with pytest.raises(RuntimeError, match="Crash"):
            await use(edit, folder, **given)
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert "1 replacement" in await use(edit, folder, **given)
    assert (folder / "a.txt").read_text() == "one\n2\nthree\n"


async def test_repeat_never_overwrites_another_s_change(folder: Path) -> None:
    """Somebody changed the file after the lost attempt: it stays as they left it."""
    given = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    await use(edit, folder, **given)
    (folder / "a.txt").write_text("theirs\n")
    with pytest.raises(
        Rejected, match="changed by someone else meanwhile; nothing was overwritten"
    ):
        await use(edit, folder, **given)
    assert (folder / "a.txt").read_text() == "theirs\n"


async def test_write_makes_folders_and_is_repeatable(folder: Path) -> None:
    """A new file comes with its folders, once."""
    first = await use(write, folder, file_path="x/y/new.txt", content="héllo")
    assert await use(write, folder, file_path="x/y/new.txt", content="héllo") == first
    assert (folder / "x/y/new.txt").read_text() == "héllo"
    await use(write, folder, "onw_2", file_path="x/y/new.txt", content="")
    assert (folder / "x/y/new.txt").read_text() == ""


async def test_mode_and_links_survive_an_edit(folder: Path) -> None:
    """An executable script stays one, and a link stays a link to the changed file."""
    (folder / "a.txt").chmod(0o751)
    (folder / "link").symlink_to("a.txt")
    await use(edit, folder, file_path="link", old_string="two", new_string="2")
    assert (folder / "link").is_symlink()
    assert (folder / "a.txt").read_text() == "one\n2\nthree\n"
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o751


@pytest.mark.parametrize(
    ("used", "given", "said"),
    [
        (edit, {"file_path": "none.txt", "old_string": "a", "new_string": ""}, "no such file"),
        (edit, {"file_path": "a.txt", "old_string": "zzz", "new_string": ""}, "not found"),
        (edit, {"file_path": "dir", "old_string": "a", "new_string": ""}, "not a regular file"),
        (edit, {"file_path": "bin", "old_string": "a", "new_string": ""}, "not valid UTF-8"),
        (edit, {"file_path": "big", "old_string": "a", "new_string": ""}, "262145 bytes"),
        (edit, {"file_path": "a.txt", "old_string": "one", "new_string": "\ud800"}, "surrogates"),
        (write, {"file_path": "dir", "content": "x"}, "not a regular file"),
        (write, {"file_path": "fifo", "content": "x"}, "not a regular file"),
        (write, {"file_path": "a.txt/b", "content": "x"}, "not a directory"),
        (write, {"file_path": "n" * 300, "content": "x"}, "too long"),
        (read, {"file_path": "none.txt"}, "no such file"),
        (read, {"file_path": "doc.pdf"}, "PDF is not shown"),
    ],
)
async def test_what_cannot_be_done_is_a_rejection(
    folder: Path, used: Any, given: dict[str, Any], said: str
) -> None:
    """A file tool that fails certainly changed nothing, so nothing of it is in doubt."""
    (folder / "dir").mkdir()
    (folder / "bin").write_bytes(b"a\xff")
    (folder / "big").write_bytes(b"a" * (256 * 1024 + 1))
    (folder / "doc.pdf").write_bytes(b"%PDF")
    os.mkfifo(folder / "fifo")
    before = names(folder)
    with pytest.raises(Rejected, match=said):
        await use(used, folder, **given)
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert names(folder) == before


async def test_full_disk_is_a_rejection_that_leaves_no_draft(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails half-way leaves the old file whole, and no stray one."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(edits, "_like", fail)
    with pytest.raises(Rejected, match="no space left on device; nothing was changed"):
        await use(write, folder, file_path="a.txt", content="new")
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert names(folder / ".onward/edits") == ["onw_1.json.gz"]


def test_journal_forgets_the_oldest(folder: Path) -> None:
    """The journal does not grow with the run."""
    journal = Journal(folder)
    for number in range(KEPT + 10):
        change = Change(path="a.txt", before="", content=b"x", message="")
        journal.write(f"onw_{number}", change)
        os.utime(folder / f".onward/edits/onw_{number}.json.gz", (number, number))
    assert len(list((folder / ".onward/edits").iterdir())) <= KEPT + 1
    assert journal.find("onw_0") is None
    assert journal.find(f"onw_{KEPT + 9}") is not None


def test_journal_takes_any_key(folder: Path) -> None:
    """A key is never a path."""
    change = Change(path="a.txt", before="", content=b"\xff\x00", message="done")
    Journal(folder).write("../../odd key", change)
    assert Journal(folder).find("../../odd key") == change
    assert not list(folder.parent.glob("odd*"))


_ATTEMPTS = """
import asyncio, json, os, signal, sys
from pathlib import Path
from onward import ToolContext
from onward.tools import edits
from onward.tools.files import edit
from anthropic.lib.tools import agent_toolset

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def attempt(folder, at):
    place = edits.Journal._place
    if at == "before journal":
        edits.Journal.write = kill
    elif at == "after journal":
        edits.Journal.make = kill
    elif at == "before replace":
        edits._like = kill
    elif at == "after replace":
        edits.Journal._place = lambda *a: (place(*a), kill())
    context = ToolContext(idempotency_key="onw_k", call="1.1", run="r", workspace=folder)
    given = {"file_path": "a.txt", "old_string": "two", "new_string": "two two"}
    (folder.parent / "said").write_text(asyncio.run(edit.run(given, context)))

def forked(folder, at):
    child = os.fork()
    if child == 0:
        attempt(folder, at)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

at, folder = sys.argv[1], Path(sys.argv[2])
print(json.dumps([forked(folder, at), forked(folder, "nowhere")]))
"""


@pytest.mark.crash
@pytest.mark.parametrize(
    "at", ["before journal", "after journal", "before replace", "after replace"]
)
def test_edit_survives_a_kill_at_every_point(folder: Path, at: str) -> None:
    """SIGKILL anywhere in an edit: the next attempt makes it once and says so."""
    attempts = subprocess.run(
        [sys.executable, "-c", _ATTEMPTS, at, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert json.loads(attempts.stdout) == [-9, 0]
    assert (folder.parent / "said").read_text() == "edited a.txt (1 replacement(s))"
    assert (folder / "a.txt").read_text() == "one\ntwo two\nthree\n"
    assert names(folder) == [".onward", "a.txt"]


def test_digest_of_no_file_is_empty(folder: Path) -> None:
    """A file that is to be created is recognised as not created."""
    assert digest(folder / "none") == ""
    assert len(digest(folder / "a.txt")) == 64
    assert json.loads((folder / ".onward/workspace.json").read_text())["id"]
