"""Help answers at once, in groups, and shells complete what it shows."""

import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable

import pytest
from typed_commands import ROOT

import starter

WITHIN_S = 0.5


def _typed(*tokens: str) -> str:
    command = [sys.executable, str(ROOT / "starter.py"), *tokens]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("tokens", [("--help",), ("start", "--help")])
def test_help_answers_within_half_a_second(tokens: tuple[str, ...]) -> None:
    """Of five tries, the middle one: a person who looks something up does not wait.

    Counted is its own time on a processor: what other tests take meanwhile is no time of its own.
    """

    def took() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _typed(*tokens)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert statistics.median(took() for _ in range(5)) < WITHIN_S


def test_help_loads_nothing_that_only_a_command_needs() -> None:
    """So it stays fast: the help of every command, in one process, imports no heavy library."""
    program = (
        "import sys, starter\n"
        "for name in sys.argv[1:]: assert starter.run([name, '--help']) == 0, name\n"
        "heavy = {'temporalio', 'pydantic', 'redis', 'httpx2', 'aiohttp', 'anthropic', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *_commands()],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert ran.stderr.strip() == "[]"


def _commands() -> list[str]:
    return [name for name in starter.app if not name.startswith("-")]


def test_help_shows_the_commands_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a word, too: what one does to a run is found by what one wants."""
    assert starter.run([]) == 0
    shown = capsys.readouterr().out
    groups = ["─ Run ─", "─ Steer ─", "─ Account ─", "─ Set up ─"]
    places = [shown.index(group) for group in groups]
    assert places == sorted(places)
    assert {f"│ {name} " in shown for name in _commands()} == {True}


def test_every_command_is_in_the_docs() -> None:
    """docs/commands.md lists each command in its group, and no other."""
    page = (ROOT / "docs" / "commands.md").read_text()
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert listed == [starter.app.name_transform(each.__name__) for each in _in_order()]


def _in_order() -> list[Callable[..., object]]:
    return [command for group in starter.COMMANDS.values() for command in group]


# ---- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What a shell completes is what there is."""
    assert starter.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in _commands() if name not in script] == []
    assert {"onward", "starter.py"} <= set(script.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("onward can", "cancel"),
        (".venv/bin/onward start --wai", "--wait"),
        ("starter.py can", "cancel"),
        ("./starter.py start --wai", "--wait"),
        ("python starter.py can", "cancel"),
        (".venv/bin/python ./starter.py resolve RUN 1.1 ret", "retry"),
        ("python other.py can", ""),
    ],
)
def test_bash_completes_what_was_begun(line: str, offered: str) -> None:
    """Also behind `python`, as most people type it; other scripts are left to bash."""
    ask = (
        'eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        'found=$(complete -p "${1##*/}"); found=${found#*-F }; ${found%% *}; '
        'echo "${COMPREPLY[@]}"'
    )
    script = _typed("completion", "bash")
    ran = subprocess.run(
        ["bash", "-c", ask, "bash", script, *line.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == offered
