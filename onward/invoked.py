"""Commands to type next, written the way this process was started."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from onward.own_code import home

PROGRAM = "onward"
"""The installed command; said where nobody knows how the reader starts it: in Temporal's UI."""
WORKER = "onward-worker"
SCRIPT = "starter.py"
"""The same in a checkout."""


def typed(*words: str) -> str:
    """Write a command with these words, quoted for a shell, to be typed as it stands."""
    return f"{program()} {shlex.join(words)}"


def worker(*options: str) -> str:
    """Write the command that starts a worker the same way, with these options."""
    *before, script = shlex.split(program())
    if before[-1:] == ["-m"]:  # installed commands are where the interpreter is
        before, script = [], before[0]
    name = "worker.py" if Path(script).name == SCRIPT else WORKER
    return shlex.join((*before, str(Path(script).with_name(name)), *options))


@cache
def program() -> str:
    """How this process was started, up to its command: `onward`, `uv run onward`."""
    return program_of(sys.orig_argv, sys.argv, os.environ)


def program_of(started: Sequence[str], argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Tell the same from `sys.orig_argv`, `sys.argv` and the environment of a process."""
    if len(started) <= len(argv):  # forked from a process that was started otherwise
        return PROGRAM
    interpreter, *options, script = started[: len(started) - len(argv) + 1]
    # Beside an installed Onward a `starter.py` is somebody's own.
    if Path(script).name not in (PROGRAM, "" if home() else SCRIPT):
        return PROGRAM
    if options[-1:] == ["-m"]:
        return shlex.join((_short(interpreter, environ), *options, script))
    if "UV_RUN_RECURSION_DEPTH" in environ and Path(interpreter).is_absolute():
        return shlex.join(("uv", "run", _short(script, environ)))
    if Path(script).name == PROGRAM:  # its first line names the interpreter, nobody types it
        return shlex.quote(_short(script, environ))
    return shlex.join((_short(interpreter, environ), *options, script))


def _short(path: str, environ: Mapping[str, str]) -> str:
    """Leave the folder away where a shell searched for it, or a shim (pyenv's, for instance)."""
    name = Path(path).name
    return name if path == shutil.which(name, path=environ.get("PATH")) else path
