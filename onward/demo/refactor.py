"""What the demo's agent has to do: rename a function of a real package, one edit at a time.

The package is a copy of one that comes with Onward's own dependencies (`rich` brings it), so the
demo needs no network, and nobody can say that we wrote the code to suit us. What to rename is
found by looking, so that another version of the package gives another plan and not an error.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import io
import re
import shutil
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onward.errors import UsageError

PACKAGE, DISTRIBUTION = "markdown_it", "markdown-it-py"
MIN_EDITS, MAX_EDITS, MIN_FILES = 25, 45, 8
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")
_TEXTUAL = {tokenize.NAME, tokenize.COMMENT, tokenize.STRING}


@dataclass(frozen=True)
class Edit:
    """One line to change, as the `edit` tool takes it."""

    path: str
    """Relative to the workspace, with `/`."""
    line: int
    """From 1."""
    before: str
    """That line, its line break included."""
    after: str
    old_string: str
    """`before` with as many lines around it as make it unique when its turn comes."""
    new_string: str


@dataclass(frozen=True)
class Refactor:
    """Rename `old` to `new` everywhere in a copy of `source`."""

    source: Path
    """The package's folder as it is installed; never written to."""
    version: str
    old: str
    new: str
    edits: tuple[Edit, ...]
    expected: dict[str, str]
    """SHA-256 of every file after the refactor, by path. Computed without looking at `edits`."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that change, in the order of the edits."""
        return tuple(dict.fromkeys(edit.path for edit in self.edits))


def plan() -> Refactor:
    """Find a name that is used all over the package, and every edit that renaming it takes.

    Raises `UsageError` where the installed version of the package has no such name.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"the demo refactors a copy of {DISTRIBUTION!r}, which is not installed")
    source = Path(next(iter(spec.submodule_search_locations)))
    texts = _python_files(source)
    old = _most_used(texts)
    return Refactor(
        source=source,
        version=importlib.metadata.version(DISTRIBUTION),
        old=old,
        new=renamed(old),
        edits=tuple(_edits(texts, old, renamed(old))),
        expected=_expected(source, old, renamed(old)),
    )


def copy_package(refactor: Refactor, workspace: Path) -> None:
    """Copy the package into the workspace, where the agent may change it."""
    shutil.copytree(refactor.source, workspace / PACKAGE, ignore=_IGNORED)


def digests(workspace: Path) -> dict[str, str]:
    """SHA-256 of each file of the package in the workspace, compiled leftovers apart."""
    root = workspace / PACKAGE
    return {
        f"{PACKAGE}/{path.relative_to(root).as_posix()}": _sha256(path.read_bytes())
        for path in _files(root)
    }


def renamed(name: str) -> str:
    """Return the name it should have had: `isStrSpace` -> `is_str_space`, `AbCd` -> `CdAb`."""
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    if name[0].isupper():
        return "".join([*words[1:], words[0]])
    return "_".join(words).lower()


def _files(root: Path) -> list[Path]:
    return sorted(
        path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )


def _python_files(source: Path) -> dict[str, str]:
    """Text by path; read without newline translation, because edits are compared byte by byte."""
    return {
        f"{PACKAGE}/{path.relative_to(source).as_posix()}": path.read_bytes().decode()
        for path in _files(source)
        if path.suffix == ".py"
    }


def _most_used(texts: dict[str, str]) -> str:
    """Pick the name that takes 25 to 45 edits in eight files or more; functions come first."""
    trees = {path: ast.parse(text) for path, text in texts.items()}
    places: dict[str, set[tuple[str, int]]] = defaultdict(set)
    candidates = _plainly_named(trees)
    for path, text in texts.items():
        for word, line in _words(text):
            if word in candidates:
                places[word].add((path, line))
    fitting = [
        (name[0].isupper(), -len({path for path, _ in found}), name)
        for name, found in places.items()
        if MIN_EDITS <= len(found) <= MAX_EDITS and len({path for path, _ in found}) >= MIN_FILES
    ]
    if not fitting:
        raise UsageError(
            f"{DISTRIBUTION} {importlib.metadata.version(DISTRIBUTION)} has no function or class "
            f"that takes {MIN_EDITS} to {MAX_EDITS} edits in {MIN_FILES} files to rename; "
            f"install another version of it"
        )
    return min(fitting)[2]


def _plainly_named(trees: dict[str, ast.Module]) -> set[str]:
    """Return names in camel case that are defined once, at the top, and mean nothing else.

    A name that is also an attribute, an argument or a local could not be renamed by its spelling.
    """
    top = [
        node
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    names = [node.name for node in top]
    taken = {name for tree in trees.values() for name in _other_meanings(tree, set(top))}
    everything = {word for tree in trees.values() for word in _identifiers(tree)}
    return {
        name
        for name in names
        if names.count(name) == 1
        and name not in taken
        and renamed(name) != name
        and renamed(name) not in everything | taken
    }


def _other_meanings(tree: ast.Module, top: set[ast.FunctionDef | ast.ClassDef]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if node not in top:
                yield name
            case _:
                pass


def _identifiers(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _words(text: str) -> Iterator[tuple[str, int]]:
    """Every identifier, in code, comments and strings, with its line number from 1."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _TEXTUAL or tokenize.tok_name[token.type].startswith("FSTRING"):
            for offset, line in enumerate(token.string.splitlines()):
                for word in re.findall(r"\w+", line):
                    yield word, token.start[0] + offset


def _edits(texts: dict[str, str], old: str, new: str) -> Iterator[Edit]:
    for path, text in texts.items():
        lines = text.splitlines(keepends=True)
        for number in sorted({line for word, line in _words(text) if word == old}):
            before = lines[number - 1]
            after = _replace(before, old, new)
            first, last = _unique(lines, number - 1)
            head, tail = "".join(lines[first : number - 1]), "".join(lines[number:last])
            yield Edit(path, number, before, after, head + before + tail, head + after + tail)
            lines[number - 1] = after


def _unique(lines: list[str], index: int) -> tuple[int, int]:
    """Widen from one line until the text is there only once: the `edit` tool's condition."""
    text = "".join(lines)
    for around in range(len(lines)):
        first, last = max(0, index - around), index + 1 + around // 2
        if text.count("".join(lines[first:last])) == 1:
            return first, last
    return 0, len(lines)


def _expected(source: Path, old: str, new: str) -> dict[str, str]:
    """Compute the tree after the rename by replacing whole words in whole files."""
    found: dict[str, str] = {}
    for path in _files(source):
        content = path.read_bytes()
        if path.suffix == ".py":
            content = _replace(content.decode(), old, new).encode()
        found[f"{PACKAGE}/{path.relative_to(source).as_posix()}"] = _sha256(content)
    return found


def _replace(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, text)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
