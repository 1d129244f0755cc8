"""The demo's task: a real rename in a real package, whose check fails if one edit is missing."""

import ast
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from onward.demo import proof, refactor
from onward.demo.audit import file_problems
from onward.demo.refactor import Edit, Refactor


@pytest.fixture(scope="module")
def plan() -> Refactor:
    return refactor.plan()


@pytest.fixture
def workspace(plan: Refactor, tmp_path: Path) -> Path:
    refactor.copy_package(plan, tmp_path)
    return tmp_path


@pytest.fixture
def refactored(plan: Refactor, workspace: Path) -> Path:
    for edit in plan.edits:
        _apply(workspace, edit)
    return workspace


def test_the_task_is_large_enough_and_the_same_every_time(plan: Refactor) -> None:
    """At least 25 edits in 8 files, and two plans of one installation are equal."""
    assert len(plan.edits) >= 25
    assert len(plan.files) >= 8
    assert plan == refactor.plan()


def test_the_package_is_somebody_elses_and_is_never_written_to(plan: Refactor) -> None:
    """The agent works on a copy; the installed package is only read."""
    assert "onward" not in plan.source.parts[-3:]
    installed = plan.source / "common" / "utils.py"
    assert plan.old in installed.read_text()


def test_all_edits_in_order_give_the_tree_that_was_computed_apart(
    plan: Refactor, refactored: Path
) -> None:
    """Each `old_string` is there exactly once when its turn comes; the end is as expected."""
    assert file_problems(plan, refactored) == []


def test_leaving_out_any_single_edit_fails_each_check_by_itself(
    plan: Refactor, refactored: Path
) -> None:
    """Both the comparison of files and the check by names catch every one of the edits."""
    for edit in plan.edits:
        with _undone(refactored, edit) as where:
            assert refactor.digests(refactored) != plan.expected, edit
            found = proof.names(refactored, plan.old, plan.new)
            assert any(where in problem for problem in found), edit


def test_a_missing_import_fails_the_audit_with_the_files_name(
    plan: Refactor, refactored: Path
) -> None:
    """What is wrong is said by path, from the files and from the running package."""
    edit = next(edit for edit in plan.edits if edit.before.startswith("from "))
    with _undone(refactored, edit):
        problems = file_problems(plan, refactored)
    assert f"{edit.path} is not as expected" in problems
    assert any("still says" in problem and edit.path in problem for problem in problems)
    assert any(problem.startswith("import ") for problem in problems)


def test_an_edit_that_breaks_something_else_fails_the_audit(
    plan: Refactor, refactored: Path
) -> None:
    """One changed byte in a file that no edit touches is found too."""
    renderer = refactored / refactor.PACKAGE / "renderer.py"
    renderer.write_text(renderer.read_text() + "\n# touched\n")
    assert file_problems(plan, refactored) == [f"{refactor.PACKAGE}/renderer.py is not as expected"]


def test_the_original_does_not_pass_the_check(plan: Refactor, workspace: Path) -> None:
    """Doing nothing is no way through."""
    assert len(proof.names(workspace, plan.old, plan.new)) == len(plan.edits)


@pytest.mark.parametrize(
    ("old", "new"), [("isStrSpace", "is_str_space"), ("StateBlock", "BlockState")]
)
def test_the_new_name_is_what_python_people_would_say(old: str, new: str) -> None:
    """Functions get PEP 8's spelling; a class keeps its capitals."""
    assert refactor.renamed(old) == new


def test_names_that_mean_several_things_are_never_chosen(plan: Refactor) -> None:
    """A name that is also an attribute or an argument could not be renamed by its spelling."""
    for path in plan.source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr == plan.old)
            assert not (isinstance(node, ast.arg) and node.arg == plan.old)


def _apply(workspace: Path, edit: Edit) -> None:
    file = workspace / edit.path
    text = file.read_bytes().decode()
    assert text.count(edit.old_string) == 1, edit
    file.write_bytes(text.replace(edit.old_string, edit.new_string).encode())


@contextmanager
def _undone(workspace: Path, edit: Edit) -> Generator[str]:
    """Put one line back as it was before the edit; yields its place, `path:line:`."""
    file = workspace / edit.path
    text = file.read_bytes()
    lines = text.decode().splitlines(keepends=True)
    assert lines[edit.line - 1] == edit.after
    lines[edit.line - 1] = edit.before
    file.write_bytes("".join(lines).encode())
    yield f"{edit.path}:{edit.line}:"
    file.write_bytes(text)
