"""Every page is true: its blocks are run, its links lead somewhere, what it names is there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from cyclopts import App
from pages import REASONS, ROOT, RUN, blocks

import starter

DECISIONS = ROOT / "docs" / "decisions"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")
PAGES = (*TOP, *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
SHOWN = ("text", "json", "toml", "ini", "yaml", "sql", "Dockerfile")
"""Languages of blocks that are looked at, not typed."""
_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"\n\n {4}(?![ *-])\S")
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"^(onward )?([a-z]+)((?: .*)?)$")
_FOLDERS = "activities|benchmarks|chaos|docs|examples|onward|tests|workflows"
_FILE = re.compile(rf"(?:{_FOLDERS})/[\w./-]+\.\w+")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_by_a_test_or_says_why_not(page: str) -> None:
    """What a reader may type is a fence of a known language; nothing escapes by being indented."""
    found = blocks(page)
    text = (ROOT / page).read_text()
    assert text.count("```") == 2 * len(found), "a fence has no language, or no end"
    assert {block.language for block in found} <= {*RUN, *SHOWN}
    assert {block.reason for block in found} <= {None, *REASONS}
    excused = re.findall("^ *<!-- not run", text, re.MULTILINE)
    assert len(excused) == sum(block.reason is not None for block in found)
    assert not [block for block in found if block.reason and block.language not in RUN]
    assert not _INDENTED.search(_prose(page)), "code that is only indented is seen by no test"
    if any(block.language in RUN and block.reason is None for block in found):
        assert page in _played(), f"no test types what {page} says"


def test_a_page_counts_as_played_only_where_a_test_asks_what_is_left() -> None:
    """A test that names a page and types half of it makes no page true."""
    whole = "def test_x():\n    reader = Reader('a.md')\n    assert reader.untyped() == set()"
    assert set(_played_by(ast.parse(whole))) == {"a.md"}
    assert set(_played_by(ast.parse(whole.replace("'a.md'", "PAGE") + "\nPAGE = 'b.md'"))) == {
        "b.md"
    }
    assert set(_played_by(ast.parse(whole.replace("assert reader.untyped()", "set()")))) == set()
    assert set(_played_by(ast.parse(whole.replace("test_x", "x")))) == set()


@cache
def _played() -> set[str]:
    """Pages that a test plays from the first command to the last."""
    modules = (ROOT / "tests").glob("test_*.py")
    return {page for module in modules for page in _played_by(ast.parse(module.read_text()))}


def _played_by(module: ast.Module) -> Iterator[str]:
    """Pages that a module's tests name in a function that asserts that nothing is untyped."""
    named = {
        target.id: statement.value.value
        for statement in module.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for function in module.body:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if function.name.startswith("test_") and _asserts_nothing_untyped(function):
            for node in ast.walk(function):
                text = node.value if isinstance(node, ast.Constant) else None
                text = named.get(node.id) if isinstance(node, ast.Name) else text
                if isinstance(text, str) and text.endswith(".md"):
                    yield text


def _asserts_nothing_untyped(function: ast.AST) -> bool:
    asserted = (node.test for node in ast.walk(function) if isinstance(node, ast.Assert))
    parts = (part for test in asserted for part in ast.walk(test))
    return any(isinstance(part, ast.Attribute) and part.attr == "untyped" for part in parts)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    """Files and headings that a page links to are there."""
    for path, anchor in _LINK.findall(_prose(page)):
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), path
        assert not anchor or anchor in _anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if "decisions" not in page])
def test_what_a_page_names_is_there(page: str) -> None:
    """Files, commands and options in code type are those that there are; decisions may be old."""
    for code in _CODE.findall(_prose(page)):
        for file in _FILE.findall(code):
            assert (ROOT / file).exists(), code
        for onward, command, rest in _COMMAND.findall(code):
            if onward or command in starter.app:
                options = set(re.findall(r"(?<= )--[a-z-]+", rest))
                assert options <= {*_options(command), "--help"}, code


def test_the_index_has_every_page() -> None:
    """Who looks for a page finds it in docs/README.md, or in the index of its folder."""
    top, *others = indexes = sorted((ROOT / "docs").rglob("README.md"))
    linked = {to for index in indexes for to in _linked(index)}
    pages = {ROOT / page for page in PAGES} - {top, *DECISIONS.glob("*.md")}
    assert sorted(pages - linked) == []
    assert {DECISIONS, *others} <= _linked(top)


def _linked(index: Path) -> set[Path]:
    return {(index.parent / path).resolve() for path, _ in _LINK.findall(index.read_text())}


def _options(command: str) -> set[str]:
    app: App = starter.app[command]
    return {name for option in app.assemble_argument_collection() for name in option.names}


def _prose(page: str) -> str:
    return _FENCED.sub("", (ROOT / page).read_text())


def _anchors(page: Path) -> set[str]:
    """Names that a repository's host gives a page's headings."""
    headings = _HEADING.findall(_prose(str(page.relative_to(ROOT))))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
