"""Commands that say something to a run as it goes, as a person types them."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from agent_double import Cli
from agent_runs import Bench, Run, app_of, says, uses
from people import waiting
from typed_commands import ROOT

from onward import tool


@tool(effect="keyed", ask="always")
async def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@pytest_asyncio.fixture(loop_scope="session")
async def run(bench: Bench) -> AsyncGenerator[Run]:
    """A run that waits for an approval, and then asks Claude once more."""
    async with bench.worker(app_of(refund)):
        begun = await bench.start(uses(("refund", {"cents": 500})), says())
        await waiting(begun)
        yield begun


def said_by_people(run: Run) -> str:
    """What Claude was told last."""
    return run.requests[-1].body


async def test_claude_is_told_what_is_typed_piped_or_in_a_file(
    cli: Cli, run: Run, tmp_path: Path
) -> None:
    """Each says that it was sent; under one id it counts once; all is seen at the next step."""
    (tmp_path / "note.md").write_text("from a file")
    sent = await cli("send", run.name, "typed here", "--id", "m-1")
    assert (sent.code, "Claude sees it at its next step" in sent.err) == (0, True)
    again = await cli("send", run.name, "typed here", "--id", "m-1", "--json")
    assert again.json == {"run": run.name, "id": "m-1", "unseen": 1}
    after = await cli("send", run.name, "--file", "note.md")
    assert "after 1 message sent before" in after.err
    command = [sys.executable, str(ROOT / "starter.py"), "send", run.name, "-"]
    piped = await asyncio.to_thread(
        subprocess.run, command, input=b"- from a pipe", capture_output=True, check=False
    )
    assert piped.returncode == 0, piped.stderr
    assert "not seen by Claude  3 messages" in (await cli("status", run.name)).out
    assert (await cli("approve", run.name, "1.1")).code == 0
    assert (await run.ended()).outcome == "completed"
    told = said_by_people(run)
    assert [told.count(text) for text in ("typed here", "from a file", "- from a pipe")] == [1] * 3


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ((), "no message is given"),
        (("",), "the message is empty"),
        ((" \n",), "the message is empty"),
        (("here", "--file", "note.md"), "two messages are given"),
        (("--file", "nowhere.md"), "cannot read the message from 'nowhere.md'"),
        (("two", "words"), "in quotes"),
    ],
)
async def test_what_is_no_message_is_sent_nowhere(
    cli: Cli, tokens: tuple[str, ...], why: str
) -> None:
    """Exit 2 before anything is connected, with what to do."""
    ran = await cli("send", "any-run", *tokens)
    assert (ran.code, why in ran.err) == (2, True)


async def test_a_pause_is_shown_wherever_people_look(cli: Cli, run: Run) -> None:
    """Said twice it is no error; whoever waits for the result is told what lets the run go on."""
    paused = await cli("pause", run.name, "--reason", "lunch", "--by", "ops")
    assert (paused.code, "finishes its step" in paused.err) == (0, True)
    again = await cli("pause", run.name)
    assert (again.code, "is already paused since" in again.err) == (0, True)
    assert "by ops: lunch. `" in again.err
    assert "by ops: lunch" in (await cli("status", run.name)).out
    for command in (("result",), ("result", "--wait")):
        asked = await cli(*command, run.name)
        assert (asked.code, f"resume {run.name}` lets it go on" in asked.err) == (8, True)
    assert (await cli("resume", run.name)).err.endswith(f"{run.name!r} may go on\n")
    unneeded = await cli("resume", run.name, "--json")
    assert (unneeded.code, unneeded.json["resuming"]) == (0, False)
    await run.handle.signal("cancel")
    await run.ended()


async def test_a_call_is_approved_as_a_person_edited_it(
    cli: Cli, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed, piped or in a file; what is no input of the tool is said, and changes nothing.

    Who edits it is kept, and Claude is told which input ran.
    """
    approve = ("approve", run.name, "1.1", "--edit")
    for edit, why in (
        ('{"cents": 300,}', "line 1 column 15"),
        ("[300]", "found JSON list, expected an object"),
        ("", "the edited input is empty"),
        ("@nowhere.json", "cannot read the edited input from 'nowhere.json'"),
        ('{"cents": "many"}', "integer"),
    ):
        refused = await cli(*approve, edit)
        assert (refused.code, why in refused.err, ".." in refused.err) == (2, True, False), (
            refused.err
        )
    both = await cli(*approve, '{"cents": 300}', "--remember")
    assert (both.code, "an edit is not remembered" in both.err) == (2, True), both.err
    (tmp_path / "edit.json").write_text('{"cents": 300}\n')
    (tmp_path / "pipe").write_text("[300]")
    with (tmp_path / "pipe").open() as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        piped = await cli(*approve, "-")
    assert (piped.code, "found JSON list" in piped.err) == (2, True), piped.err
    edited = await cli(*approve, "@edit.json", "--by", "ops", "--json")
    assert (edited.code, edited.json["by"], edited.json["edit"]) == (0, "ops", '{"cents": 300}\n')
    assert (await run.ended()).outcome == "completed"
    assert "refunded 300" in said_by_people(run)


async def test_a_cancel_after_the_step_says_so(cli: Cli, run: Run) -> None:
    """The reason and who gave it are kept; said again it does no harm."""
    tokens = ("cancel", run.name, "--after-step", "--reason", "wrong list", "--by", "ops")
    asked = await cli(*tokens)
    assert (asked.code, "after its step" in asked.err) == (0, True)
    await run.ended()
    again = await cli(*tokens)
    assert (again.code, "there is nothing to cancel" in again.err) == (0, True)
    ended = await cli("result", run.name)
    assert (ended.code, "cancelled: wrong list" in ended.err) == (5, True)
