"""`bash`: a fresh shell each time, bounded output, no secrets, nothing left running."""

import asyncio
import os
import time
from pathlib import Path

import psutil
import pytest

from onward import Rejected, ToolContext
from onward.tools import orphans
from onward.tools.bash import LIMIT_S, bash, environment, run_command
from onward.tools.results import MAX_TEXT_BYTES, bound


async def run(command: str, folder: Path, limit_s: float = 20) -> str:
    """Run a command as the tool does, with a limit that a test can wait for."""
    return await run_command(command, folder, limit_s=limit_s)


async def gone(pid_file: Path) -> bool:
    """Wait until the process whose id is in a file has ended; False if it does not."""
    pid = int(await asyncio.to_thread(pid_file.read_text))
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        await asyncio.sleep(0.02)
    return False


async def test_output_and_errors_come_in_order_with_the_exit_code(tmp_path: Path) -> None:
    """A command that fails is a result for Claude, not an error of the tool."""
    context = ToolContext(idempotency_key="k", call="1.1", run="r", workspace=tmp_path)
    result = await bash.run({"command": "echo a; echo b >&2; echo c; exit 3"}, context)
    assert result == "a\nb\nc\n[exit code 3]"
    assert await run("kill -9 $$", tmp_path) == "[ended by signal 9]"
    assert await run("true", tmp_path) == ""


async def test_each_call_is_a_fresh_shell_in_the_workspace(tmp_path: Path) -> None:
    """Nothing of one call leaks into the next, so a call means the same after a crash."""
    assert await run("cd /; X=1; pwd", tmp_path) == "/"
    assert await run("pwd; echo ${X-unset}", tmp_path) == f"{tmp_path}\nunset"


async def test_there_is_nothing_to_read(tmp_path: Path) -> None:
    """A command that asks for input ends at once instead of waiting for ever."""
    assert await run("cat; read answer || echo none", tmp_path) == "none"


async def test_no_secret_is_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`env` puts no credential of the worker into a transcript."""
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ONWARD_REDIS_URL",
        "TEMPORAL_API_KEY",
        "REDIS_URL",
        "GITHUB_TOKEN",
        "OTHER_API_KEY",
        "CLIENT_SECRET",
        "PGPASSWORD",
        "db_password",
        "BASH_ENV",
    ):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv(orphans.MARK, "mark")
    monkeypatch.setenv("HARMLESS", "kept")
    output = await run("env", tmp_path)
    assert "s3cret" not in output
    assert "HARMLESS=kept" in output
    assert f"{orphans.MARK}=mark" in output


def test_environment_keeps_what_programs_need() -> None:
    """PATH, HOME and the like stay."""
    kept = {"PATH": "/bin", "HOME": "/root", "TOKENIZERS": "1", "API_KEY_FILE": "x"}
    assert environment({**kept, "X_TOKEN": "1"}) == kept


async def test_background_children_end_with_the_command(tmp_path: Path) -> None:
    """A server left behind is killed, even one of its own session, and not waited for."""
    started = time.monotonic()
    await run(
        "sleep 60 & echo $! > bg; setsid sh -c 'echo $$ > own; exec sleep 60' & sleep 0.2", tmp_path
    )
    assert time.monotonic() - started < 10
    assert await gone(tmp_path / "bg")
    assert await gone(tmp_path / "own")


async def test_command_that_never_ends_is_killed_with_a_result(tmp_path: Path) -> None:
    """Passing the time is told to Claude as what it is, and leaves no live process."""
    result = await run("echo $$ > pid; echo begun; sleep 60", tmp_path, limit_s=0.5)
    assert result == "begun\n[killed after 0.5 s; what the command had done by then stays done]"
    assert await gone(tmp_path / "pid")
    assert bash.timeout_s == 600
    assert bash.timeout_s > LIMIT_S


async def test_cancelled_command_is_killed(tmp_path: Path) -> None:
    """A cancelled run leaves no shell at work."""
    context = ToolContext(idempotency_key="k", call="1.1", run="r", workspace=tmp_path)
    call = asyncio.create_task(bash.run({"command": "echo $$ > pid; sleep 60"}, context))
    deadline = time.monotonic() + 10
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await gone(tmp_path / "pid")


async def test_endless_output_is_bounded(tmp_path: Path) -> None:
    """Beginning and end of a gigabyte stay; memory and history do not fill."""
    output = await run(
        "echo BEGIN; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo END", tmp_path
    )
    assert output.startswith("BEGIN\n")
    assert output.endswith("END")
    assert "bytes left out here]" in output
    assert bound(output) == output
    assert len(output.encode()) <= MAX_TEXT_BYTES


async def test_binary_output_and_colours_are_survived(tmp_path: Path) -> None:
    """Output of any bytes is text for Claude."""
    assert await run(r"printf '\xff\x00\033[31mred\033[0m'", tmp_path) == "\ufffd\x00red"


@pytest.mark.parametrize("command", ["echo \x00", "echo \ud800", "x" * 3_000_000])
async def test_command_that_cannot_be_started_is_a_rejection(tmp_path: Path, command: str) -> None:
    """Where no shell was started nothing was done."""
    with pytest.raises(Rejected, match="could not be started"):
        await run(command, tmp_path)


async def test_missing_folder_or_shell_is_a_rejection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host without the folder, or without bash, says so and did nothing."""
    with pytest.raises(Rejected, match="could not be started"):
        await run("true", tmp_path / "gone")
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(Rejected, match="could not be started"):
        await run("true", tmp_path)
