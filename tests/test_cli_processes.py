"""`onward` as a process of its own: signals, pipes, terminals, a server that goes away."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO

import pytest
from agent_double import Cli, double_worker
from typed_commands import DONE, ROOT, line_with, piped, process, waiting

import starter
from onward.connection import connect
from onward.local_services import temporal_server
from onward.settings import Settings


@pytest.mark.usefixtures("worker")
async def test_whole_command_as_a_process() -> None:
    """The command as typed: text on stdout, exit code by outcome, no crash at the end."""
    code, out, err = await process("start", "limited", "--wait")
    assert (code, out) == (6, DONE + "\n"), err
    assert "\x1b" not in out + err


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("times", [1, 3])
async def test_ctrl_c_leaves_the_run_going(cli: Cli, times: int) -> None:
    """Ctrl-C while waiting ends the command with 130, says that the run goes on, no traceback."""
    run_id = await waiting(cli)
    waiter = await piped("result", run_id, "--wait")
    assert waiter.stderr is not None
    await line_with(waiter.stderr, "Temporal at")
    with suppress(ProcessLookupError):  # it may be faster than three presses
        for _ in range(times):
            waiter.send_signal(signal.SIGINT)
            await asyncio.sleep(0.01)
    _, err = await waiter.communicate()
    assert waiter.returncode == 130
    assert b"Traceback" not in err
    assert (await cli("status", run_id, "--json")).json["state"] == "running"


@pytest.mark.usefixtures("worker")
async def test_reader_that_goes_away_is_no_traceback(cli: Cli) -> None:
    """`list | head -1` ends quietly."""
    await cli("start", "completes", "--wait")
    command = f"{sys.executable} {ROOT / 'starter.py'} list --json | head -c 1"
    shell = await asyncio.create_subprocess_shell(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _, err = await shell.communicate()
    assert b"Traceback" not in err
    assert b"Broken pipe" not in err


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("no_color", [False, True])
async def test_terminal_gets_colours_unless_no_color(*, no_color: bool) -> None:
    """On a terminal errors are coloured; with NO_COLOR they are not."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"} | ({"NO_COLOR": "1"} if no_color else {})
    with os.fdopen(controller, "rb", buffering=0) as reader:
        shown = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "starter.py"),
            *("status", "nowhere"),
            stdout=terminal,
            stderr=terminal,
            env=environment,
        )
        os.close(terminal)
        text = await asyncio.to_thread(read_all, reader)
        await shown.wait()
    assert "error: Temporal knows no run 'nowhere'" in text
    assert ("\x1b[1;31m" in text) is not no_color


def test_help_of_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` teaches: every command shows an example."""
    for command in ("start", "status", "spend", "cancel", "result", "watch", "list", "demo"):
        assert starter.run([command, "--help"]) == 0
        assert f"Example: onward {command} " in capsys.readouterr().out


@pytest.mark.crash
async def test_waiting_outlasts_a_temporal_that_goes_away(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    """Temporal is killed while one waits: that is said, and the result comes when it is back."""
    async with temporal_server(None, ui=False) as server:
        monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
        async with double_worker(await connect(Settings()), queue):
            run_id = await waiting(cli)
            waiter = await piped("start", "waits", "--id", run_id, "--wait")
            assert waiter.stderr is not None
            await line_with(waiter.stderr, "at most 100 steps")
            await server.kill()
            await line_with(waiter.stderr, "Temporal did not answer")
            await server.start()
            client = await connect(Settings())
            await client.get_workflow_handle(run_id).signal("cancel")
            out, err = await waiter.communicate()
    assert (waiter.returncode, out.decode()) == (5, DONE + "\n"), err


def read_all(reader: IO[bytes]) -> str:
    found = b""
    try:
        while part := reader.read(4096):
            found += part
    except OSError:  # so Linux says that the other end of a terminal is closed
        pass
    return found.decode()
