"""The refactor's check: `python check.py OLD NEW` in the workspace; exit status 0 if it holds.

It is copied into the workspace as `check.py` for the agent, and the audit runs this original, so
it may import nothing but the standard library and the copy of the package that lies beside it.
"""

import ast
import hashlib
import importlib
import re
import sys
from pathlib import Path

PACKAGE = "markdown_it"
SAMPLE = """\
Title *with* `code`
===================

# Heading #

> quote
> > deeper
>lazy

- one
  - two ![image]( /i.png  "title" ) [link]( </a b> 'title' )
1. three\\
four\x20\x20
five

| a | b |
| - | :-: |
| 1 | 2 |

***

    code block

[ref]: /target "text"

[ref] <b>html</b> &amp; \\* https://example.org
"""


def names(folder: Path, old: str, new: str) -> list[str]:
    """Say where the old name is left, and where the new one is used but not known."""
    problems: list[str] = []
    for path in sorted((folder / PACKAGE).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(folder).as_posix()
        problems += [
            f"{where}:{number}: still says {old!r}"
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(rf"\b{re.escape(old)}\b", line)
        ]
        if not _resolves(ast.parse(text), new):
            problems.append(f"{where}: uses {new!r} but neither defines nor imports it")
    return problems


def _resolves(tree: ast.Module, name: str) -> bool:
    used = any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))
    return not used or any(_binds(node, name) for node in ast.walk(tree))


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.FunctionDef(name=bound) | ast.ClassDef(name=bound):
            return bound == name
        case ast.ImportFrom(names=aliases):
            return any((alias.asname or alias.name) == name for alias in aliases)
        case _:
            return False


def imports(folder: Path) -> list[str]:
    """Import every module of the package; say which ones fail."""
    sys.path.insert(0, str(folder))
    found: list[str] = []
    for module in [PACKAGE, *_modules(folder)]:
        try:
            where = str(importlib.import_module(module).__file__)
        except Exception as error:  # noqa: BLE001  (whatever stops an import is a finding)
            found.append(f"import {module}: {error!r}")
            continue
        if not Path(where).is_relative_to(folder):
            found.append(f"{module} was imported from {where}, not from {folder}")
    return found


def _modules(folder: Path) -> list[str]:
    paths = sorted((folder / PACKAGE).rglob("*.py"))
    names = [".".join(path.relative_to(folder).with_suffix("").parts) for path in paths]
    return [name for name in names if not name.endswith(("__init__", "__main__"))]


def rendering() -> str:
    """SHA-256 of a sample that goes through all rules of the package, rendered."""
    package = importlib.import_module(PACKAGE)
    html = package.MarkdownIt("commonmark").enable(["table"]).render(SAMPLE)
    return hashlib.sha256(html.encode()).hexdigest()


def main(old: str, new: str, folder: Path) -> int:
    """Print what is wrong, or the digest of the rendered sample; return the exit status."""
    problems = names(folder, old, new) + imports(folder)
    if not problems:
        try:
            print(f"refactor ok, sample renders to {rendering()}")  # noqa: T201
        except Exception as error:  # noqa: BLE001  (a name that is not known raises only here)
            problems.append(f"rendering the sample: {error!r}")
    print("\n".join(problems), end="\n" if problems else "")  # noqa: T201
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3] if sys.argv[3:] else ".").resolve()))
