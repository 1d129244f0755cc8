"""A workspace is told by its marker, and is clean in git before an agent works in it."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onward.errors import UsageError
from onward.messages import Workspace
from onward.tools.workspace import WorkspaceElsewhere, check, prepare


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody."""
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a clean git tree with one file."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_same_folder_has_the_same_identity(tmp_path: Path) -> None:
    """Preparing again recognises the workspace; checking finds it."""
    first = prepare(tmp_path)
    assert prepare(tmp_path) == first
    assert first.path == str(tmp_path.resolve())
    assert json.loads((tmp_path / ".onward/workspace.json").read_text()) == {"id": first.id}
    assert check(first) == tmp_path


def test_two_that_prepare_at_once_agree(tmp_path: Path) -> None:
    """Two starters race for the marker; both go by the one that won."""
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(prepare, [tmp_path] * 16))) == 1
    names = sorted(path.name for path in (tmp_path / ".onward").iterdir())
    assert names == [".gitignore", "workspace.json"]


def test_relative_and_linked_paths_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run records where the folder is, not how it was typed."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert prepare("link").path == str((tmp_path / "real").resolve())


def test_other_folder_at_the_same_path_is_elsewhere(tmp_path: Path) -> None:
    """A worker with a namesake folder hands the call back and says what it has."""
    known = prepare(tmp_path)
    other = Workspace(path=known.path, id="another")
    with pytest.raises(WorkspaceElsewhere, match=f"marker has the id '{known.id}'"):
        check(other)


def test_missing_folder_or_marker_is_elsewhere(tmp_path: Path) -> None:
    """A worker without the folder hands the call back."""
    with pytest.raises(WorkspaceElsewhere, match="no such folder"):
        check(Workspace(path=str(tmp_path / "gone"), id="x"))
    with pytest.raises(WorkspaceElsewhere, match="no marker"):
        check(Workspace(path=str(tmp_path), id="x"))


def test_broken_marker_is_an_error_in_words(tmp_path: Path) -> None:
    """A marker that cannot be read is named, to the person and to the worker."""
    known = prepare(tmp_path)
    (tmp_path / ".onward/workspace.json").write_text("{")
    with pytest.raises(UsageError, match="not readable; delete it"):
        prepare(tmp_path)
    with pytest.raises(WorkspaceElsewhere, match="not readable"):
        check(known)


def test_link_in_place_of_our_folder_is_refused(tmp_path: Path) -> None:
    """A folder from elsewhere cannot have our files written outside of it."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/.onward").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="not a folder of Onward's"):
        prepare(tmp_path / "ws")


def test_unusable_folder_is_refused(tmp_path: Path) -> None:
    """Each kind of wrong path says what is wrong with it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="does not exist"):
        prepare(tmp_path / "gone")
    with pytest.raises(UsageError, match="not a folder"):
        prepare(tmp_path / "file")


def test_unreadable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that this user may not write is refused at start, not at the first edit."""

    def access(_: object, mode: int) -> bool:
        return mode != os.W_OK

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(UsageError, match="cannot be written by this user"):
        prepare(tmp_path)


def test_marker_never_makes_the_tree_dirty(repository: Path) -> None:
    """`git diff` and `git status` show the agent's work and nothing of ours."""
    prepare(repository)
    assert git(repository, "status", "--porcelain") == ""
    prepare(repository)


@pytest.mark.parametrize("change", ["edited", "untracked", "staged"])
def test_dirty_tree_is_refused_unless_allowed(repository: Path, change: str) -> None:
    """The person's own changes must not mix with the agent's without their word."""
    name = "a.py" if change == "edited" else "b.py"
    (repository / name).write_text("changed\n")
    if change == "staged":
        git(repository, "add", ".")
    with pytest.raises(UsageError, match=r"(?s)not committed.*py.*--allow-dirty"):
        prepare(repository)
    assert not (repository / ".onward").exists()
    assert prepare(repository, allow_dirty=True).path == str(repository.resolve())


def test_changes_outside_the_workspace_do_not_count(repository: Path) -> None:
    """A subfolder of a repository is judged by itself."""
    (repository / "part").mkdir()
    (repository / "part/p.py").write_text("")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    (repository / "a.py").write_text("changed\n")
    prepare(repository / "part")


def test_variables_of_git_do_not_point_elsewhere(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start from inside a git hook still looks at the workspace's own repository."""
    (repository / "a.py").write_text("changed\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("other")))
    with pytest.raises(UsageError, match="not committed"):
        prepare(repository)


def test_folder_without_git_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No review is possible there, and none is pretended; nor where there is no git at all."""
    prepare(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    prepare(tmp_path)
