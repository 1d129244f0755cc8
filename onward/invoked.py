"""Commands to type next, written the way this process was started."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

SCRIPT = "starter.py"
PROGRAM = f"python {SCRIPT}"
"""What is said where nobody knows how the reader starts it: in Temporal's UI, for instance."""


def typed(*words: str) -> str:
    """Write a command with these words, quoted for a shell, to be typed as it stands."""
    return f"{program()} {shlex.join(words)}"


def worker(*options: str) -> str:
    """Write the command that starts a worker the same way, with these options."""
    *interpreter, script = shlex.split(program())
    return shlex.join((*interpreter, str(Path(script).with_name("worker.py")), *options))


@cache
def program() -> str:
    """How this process was started, up to its command: `python starter.py`, `uv run starter.py`."""
    return program_of(sys.orig_argv, sys.argv, os.environ)


def program_of(started: Sequence[str], argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Tell the same from `sys.orig_argv`, `sys.argv` and the environment of a process."""
    if Path(argv[0]).name != SCRIPT:
        return PROGRAM
    interpreter, *options = started[: len(started) - len(argv)]
    if "UV_RUN_RECURSION_DEPTH" in environ and Path(interpreter).is_absolute():
        return shlex.join(("uv", "run", argv[0]))
    # A shim, pyenv's for instance, hands on a path that nobody typed.
    name = Path(interpreter).name
    if interpreter == shutil.which(name, path=environ.get("PATH")):
        interpreter = name
    return shlex.join((interpreter, *options, argv[0]))
