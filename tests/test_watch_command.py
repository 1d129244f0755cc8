"""`onward watch` as a person types it: what is printed, and how it ends (E04)."""

import json
import re
import signal
from pathlib import Path

import pytest
from agent_double import Cli
from agent_runs import ASKED, Bench, Run, app_of, says, uses
from typed_commands import line_with, piped

from onward import tool
from onward.console import Output
from onward.live.documents import KINDS
from onward.live.fragments import Fragment
from onward.live.happenings import Asked, CallEnded, Restarted, Trouble, Wrote
from onward.live.printing import Printer

pytestmark = [pytest.mark.field("E04"), pytest.mark.timeout(120)]

HOSTILE = "\x1b[31mred\r\n── step 9 ──"


@tool(effect="read")
async def look(order: str) -> str:
    """Look."""
    return f"{order}\n" * 20


@pytest.fixture
async def ended(bench: Bench) -> Run:
    """A run of two steps that reached its limit."""
    looks = uses(("look", {"order": "a"}))
    return await bench.run(app_of(look), looks, looks, max_steps=2)


async def test_an_ended_run_is_told_and_its_outcome_is_the_exit_code(cli: Cli, ended: Run) -> None:
    """The last step and the end, at once; `--all` has every step; a result is cut, and said so."""
    ran = await cli("watch", ended.name)
    assert ran.code == 6
    assert ran.out.count("── step 2 ──") == 1
    assert "step 1" not in ran.out
    assert "2.1 look order=a\n" in ran.out
    assert f"characters more: `onward transcript {ended.name}`" in ran.out
    assert "1 step came before; --all tells them" in ran.err
    assert "limit_steps: 2 steps" in ran.err
    assert "\x1b" not in ran.out + ran.err
    told = (await cli("watch", ended.name, "--all")).out
    assert (told.count("── step 1 ──"), told.count("  Go. [script:")) == (1, 1)
    assert (await cli("watch", "no-such-run")).code == 4


async def test_json_is_a_document_a_line(cli: Cli, ended: Run) -> None:
    """For scripts: the whole story, with the exit code of the outcome."""
    ran = await cli("watch", ended.name, "--all", "--json")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 6
    step = ["step", "reply", "result"]
    assert [each["kind"] for each in told] == ["run", *step, *step, "end"]
    assert told[-1]["outcome"] == "limit_steps"
    assert told[2]["calls"][0]["summary"] == "order=a"


def test_every_kind_is_documented() -> None:
    """Scripts are written by docs/watching.md: it names what there is, and nothing else."""
    page = Path(__file__).parent.parent / "docs" / "watching.md"
    named = re.findall(r"^\| `(\w+)`", page.read_text(), re.MULTILINE)
    assert named == list(KINDS)


async def test_ctrl_c_leaves_the_run_alone(cli: Cli, bench: Bench) -> None:
    """The command ends with 130 and says how to come back; the run goes on to its end."""
    assert cli
    async with bench.worker(app_of(look), **ASKED):
        run = await bench.start(says("Well, " * 60, chunk_delay_s=0.4))
        command = await piped("watch", run.name)
        assert command.stdout is not None
        await line_with(command.stdout, "Claude")
        command.send_signal(signal.SIGINT)
        _, err = await command.communicate()
        assert command.returncode == 130
        assert "the run goes on without you" in err.decode()
        assert f"starter.py watch {run.name}` comes back to it" in err.decode()
        assert (await run.ended()).outcome == "completed"


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    out = Output()
    printer = Printer("run", out)
    for happening in (
        Asked("r", "1"),
        Wrote("1", Fragment(0, "text", "It was the ")),
        Wrote("1", Fragment(0, "text", "night")),
        Restarted("1"),
        Wrote("1", Fragment(0, "thinking", HOSTILE)),
        Wrote("1", Fragment(1, "tool", "look\n── step 9 ──")),
        Wrote("1", Fragment(1, "arguments", "x" * 450)),
        CallEnded("1.1", "look", "done", HOSTILE, 0.5),
        Trouble("no worker answers"),
    ):
        printer.show(happening)
    return capsys.readouterr().out


def test_what_is_dropped_is_visibly_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    """In a file as on a terminal: what was printed stays, and a line of its own says what of it."""
    assert printed(capsys).splitlines()[:6] == [
        "── step 1 ──",
        "Claude",
        "  It was the night",
        "── step 1, attempt restarted: what it said above does not count ──",
        "Claude, thinking",
        "  \x1b[31mred",
    ]


def test_nobody_steers_the_terminal_of_who_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control characters are shown, not sent; no line of Claude's or a tool's passes for ours."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    shown = printed(capsys)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert plain.count("  \\x1b[31mred\\x0d\n  ── step 9 ──\n") == 2
    assert plain.count("\n── step 9") == 0
    assert "Claude prepares a call of look ── step 9 ── ..\n1.1 look: done in 0.5 s\n" in plain
