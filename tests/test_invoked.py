"""What is said to be typed next can be typed: as this process was started, quoted."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typed_commands import ROOT

from onward import invoked
from onward.invoked import PROGRAM, program_of, typed, worker

PYTHON = sys.executable
BIN = str(Path(PYTHON).parent)


@pytest.mark.parametrize(
    ("started", "environ", "said"),
    [
        (["python", "starter.py"], {}, "python starter.py"),
        (["python3", "-X", "dev", "./starter.py"], {}, "python3 -X dev ./starter.py"),
        ([".venv/bin/python", "starter.py"], {}, ".venv/bin/python starter.py"),
        (["python", "/two words/starter.py"], {}, "python '/two words/starter.py'"),
        ([PYTHON, "starter.py"], {"PATH": BIN}, f"{Path(PYTHON).name} starter.py"),
        ([PYTHON, "starter.py"], {"PATH": "/nowhere"}, f"{PYTHON} starter.py"),
        ([PYTHON, "starter.py"], {"UV_RUN_RECURSION_DEPTH": "1"}, "uv run starter.py"),
        (["python", "starter.py"], {"UV_RUN_RECURSION_DEPTH": "1"}, "python starter.py"),
        ([PYTHON, f"{BIN}/onward"], {"PATH": BIN}, "onward"),
        ([PYTHON, f"{BIN}/onward"], {"PATH": "/nowhere"}, f"{BIN}/onward"),
        ([PYTHON, ".venv/bin/onward"], {"PATH": BIN}, ".venv/bin/onward"),
        ([PYTHON, "/two words/onward"], {}, "'/two words/onward'"),
        ([PYTHON, f"{BIN}/onward"], {"PATH": BIN, "UV_RUN_RECURSION_DEPTH": "1"}, "uv run onward"),
        (["python", "-X", "dev", "-m", "onward"], {}, "python -X dev -m onward"),
        (["python", "worker.py"], {}, PROGRAM),
        ([PYTHON, f"{BIN}/onward-worker"], {"PATH": BIN}, PROGRAM),
        (["python", "-m", "pytest"], {}, PROGRAM),
    ],
)
def test_a_command_is_written_as_the_person_writes_it(
    started: list[str], environ: dict[str, str], said: str
) -> None:
    """Interpreter, its options, path and `uv run` are kept; another process says the usual."""
    argv = [started[-1], "status", "a run"]
    assert program_of([*started, "status", "a run"], argv, environ) == said


def test_an_odd_id_is_quoted_for_the_shell() -> None:
    """What is printed can be pasted, whatever the id of the run is."""
    assert shlex.split(typed("watch", "it's `a` run"))[-1] == "it's `a` run"


def test_what_an_installed_onward_is_not_started_by_is_somebodys_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Temporal shop has a `starter.py`, which uses the client and takes none of our commands."""
    monkeypatch.setattr(invoked, "home", lambda: "onward.app.")
    started = ["python", "starter.py"]
    assert program_of(started, started[-1:], {}) == PROGRAM


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/venv/bin/python 'two words/starter.py'", "/venv/bin/python 'two words/worker.py'"),
        ("uv run starter.py", "uv run worker.py"),
        ("onward", "onward-worker"),
        (".venv/bin/onward", ".venv/bin/onward-worker"),
        ("uv run onward", "uv run onward-worker"),
        ("python -m onward", "onward-worker"),
        (".venv/bin/python -X dev -m onward", ".venv/bin/onward-worker"),
    ],
)
def test_a_worker_is_started_as_the_command_was(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever typed a path or an interpreter of their own is told no other one for the worker."""
    monkeypatch.setattr(invoked, "program", lambda: program)
    assert worker("--local") == f"{said} --local"


def test_a_mistake_is_told_with_the_command_that_was_typed(tmp_path: Path) -> None:
    """The hint of an error is pasted from another folder, too: it names the script as it was."""
    ran = subprocess.run(
        [PYTHON, str(ROOT / "starter.py"), "status"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
    )
    assert ran.returncode == 2
    assert f"`{PYTHON} {ROOT / 'starter.py'} status --help` shows what is possible" in ran.stderr
