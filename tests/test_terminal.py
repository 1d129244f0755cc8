"""What a person sees on a terminal: wide or narrow, with colours or without, and after Ctrl-C."""

import threading
from contextlib import AsyncExitStack

import pytest
from agent_double import Cli
from agent_runs import ASKED, Bench, app_of, says, uses
from terminals import CTRL_C, STYLES, terminal
from typed_commands import new_id, waiting

from onward import tool

NARROW = 40


def words(text: str) -> list[str]:
    """What is told, however it is broken into lines."""
    return text.split()


async def test_watch_tells_the_same_story_on_every_terminal(bench: Bench) -> None:
    """From start to end, wide or narrow, with colours or none: nothing is cut off or drawn over.

    Who has seen enough presses Ctrl-C, and learns how to come back; the run goes on.
    """
    everybody_sees_it = threading.Event()

    @tool(effect="keyed")
    def look(order: str) -> str:
        """Look."""
        everybody_sees_it.wait(60)
        return f"{order} was delivered on the third of November at half past four in the afternoon"

    async with bench.worker(app_of(look), **ASKED), AsyncExitStack() as opened:
        run = await bench.start(uses(("look", {"order": "A-7"})), says("It was delivered. " * 20))
        follow = ("watch", run.name, "--all")
        wide, narrow, dumb, gone = [
            await opened.enter_async_context(each)
            for each in (
                terminal(*follow, columns=120),
                terminal(*follow, columns=NARROW, environment={"NO_COLOR": "1"}),
                terminal(*follow, environment={"TERM": "dumb"}),
                terminal(*follow),
            )
        ]
        for each in (wide, narrow, dumb, gone):
            await each.until("1.1 look order=A-7")
        gone.press(CTRL_C)
        assert await gone.ended() == 130
        everybody_sees_it.set()
        assert [await each.ended() for each in (wide, narrow, dumb)] == [0, 0, 0]
    assert f"starter.py watch {run.name}` comes back to it" in " ".join(words(gone.text))
    assert STYLES.search(wide.raw)
    assert "\x1b" not in narrow.raw + dumb.raw
    assert words(narrow.text) == words(dumb.text) == words(wide.text)
    for told in ("── step 1 ──", "1.1 look: done", "It was delivered.", "completed: 2 steps"):
        assert told in wide.text


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("command", ["start --wait", "result --wait"])
async def test_ctrl_c_leaves_the_run_and_says_how_to_come_back(cli: Cli, command: str) -> None:
    """A person who has seen enough presses Ctrl-C: exit 130, no traceback, the run goes on."""
    run_id = await waiting(cli)
    name, *options = command.split()
    tokens = ("waits", "--id", run_id) if name == "start" else (run_id,)
    async with terminal(name, *tokens, *options) as shown:
        await shown.until("step 1")
        shown.press(CTRL_C)
        assert await shown.ended() == 130
    back = f"starter.py result {run_id} --wait` comes back to it"
    assert back in " ".join(words(shown.text))
    assert "Traceback" not in shown.text
    assert (await cli("status", run_id, "--json")).json["state"] == "running"
    await cli("cancel", run_id)


@pytest.mark.usefixtures("worker")
async def test_a_long_wait_shows_how_far_the_run_is(cli: Cli) -> None:
    """One line moves while one waits, also where it is longer than the terminal is wide."""
    run_id = await waiting(cli)
    async with terminal("result", run_id, "--wait", columns=NARROW) as shown:
        for told in ("step 1", "12.1 bash", "120 tokens", "$0.2500"):
            await shown.until(told)
        await cli("cancel", run_id, "--reason", "seen enough")
        assert await shown.ended() == 5
    assert "cancelled: 1 step" in shown.text
    assert shown.text.index("cancelled: 1 step") > shown.text.rindex("12.1 bash")


@pytest.mark.usefixtures("worker")
async def test_a_narrow_terminal_cuts_no_id(cli: Cli) -> None:
    """In 40 columns ids, rows of a table and facts can be read whole."""
    run_id = f"{new_id()}-refunds-of-november-for-the-northern-region"
    await cli("start", "completes and more words than fit a line of it", "--id", run_id, "--wait")
    async with terminal("list", "--limit", "50", columns=NARROW) as shown:
        assert await shown.ended() == 0
    lines = STYLES.sub("", shown.raw).splitlines()
    told = lines[lines.index(run_id) + 1 :]
    assert max(len(line) for line in told if line.startswith(" ")) <= NARROW
    assert "than fit a line of it" in " ".join(words(" ".join(told)))
    async with terminal("status", run_id, columns=NARROW) as shown:
        assert await shown.ended() == 0
    assert run_id in shown.text
    assert "1 request to Claude" in shown.text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=str)
@pytest.mark.parametrize("typed", ["--help", "status"])
async def test_styles_are_for_who_wants_them(typed: str, environment: dict[str, str]) -> None:
    """With NO_COLOR, or on a dumb terminal, nothing is bold, dim or coloured; else something is."""
    async with terminal(typed, environment=environment) as shown:
        await shown.ended()
    assert ("\x1b" in shown.raw) is not bool(environment)
