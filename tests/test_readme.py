"""The README is true: every block in it is run, as a new user would, from its own text."""

import asyncio
import os
import re
import shlex
import socket
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from agent_runs import says, uses

from onward.agents import load_app
from onward.testing import ManagedProcess, clean_env, wait_until
from onward.testing.messages_api import Script, ScriptedAPI

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
# These two are run, with the same words, by test_demo.py; `make demo` is its first line.
RUN_ELSEWHERE = {"make demo", ".venv/bin/python starter.py demo --unprotected"}


def blocks(language: str) -> list[str]:
    """Fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def lines(block: str) -> list[str]:
    """Commands of a block, each with its continuation lines."""
    return block.strip().replace("\\\n", " ").splitlines()


def free_port() -> str:
    """Find a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Reader:
    """A new user who types what the README says, in a folder of their own."""

    def __init__(self, folder: Path, api: str) -> None:
        self.folder, self.typed = folder, set[str]()
        self._port = free_port()
        self._env = {"ANTHROPIC_BASE_URL": api, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        for name in ("worker.py", "starter.py"):
            (folder / name).symlink_to(ROOT / name)

    def block(self, containing: str) -> list[str]:
        """Lines of the shell block that holds this text; exports are taken over."""
        (text,) = (block for block in blocks("bash") if containing in block)
        commands: list[str] = []
        for line in lines(text):
            self.typed.add(line)
            words = shlex.split(line.replace("8400", self._port), comments=True)
            if words[0] == "export":
                self._env |= dict(word.split("=", 1) for word in words[1:])
            else:
                commands.append(shlex.join([sys.executable, *words[1:]]))
        return commands

    async def start(self, command: str, name: str) -> ManagedProcess:
        """Type a command in a terminal of its own."""
        env = clean_env(self._env | {"ONWARD_DATA_DIR": ".onward"})
        log = self.folder / f"{name}.log"
        return await ManagedProcess.spawn(shlex.split(command), log=log, env=env, cwd=self.folder)

    @asynccontextmanager
    async def running(self, command: str, name: str, ready: str) -> AsyncGenerator[ManagedProcess]:
        """Type a command and leave it running."""
        process = await self.start(command, name)
        try:
            await process.logged(ready, 60)
            yield process
        finally:
            await process.stop()


async def test_a_new_user_gets_there_by_the_readme_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own tool, three terminals, kill -9 of the worker, start it again: one refund, a result."""
    call = uses(("refund", {"order_id": "A-17", "amount_cents": 500}))
    script = Script(steps=[call, says("Refunded 5 euros.", delay_s=4)])
    (tmp_path / "refunds.py").write_text(blocks("python")[0])
    async with ScriptedAPI({"default": script}) as api:
        reader = Reader(tmp_path, api.url)
        (payments,) = reader.block("onward.testing.payments")
        (worker,) = reader.block("worker.py --local")
        (start,) = reader.block("--id batch-1 --wait")
        async with reader.running(payments, "payments", '"url"'):
            async with reader.running(worker, "worker", "polling") as first:
                assert re.search(said_by_worker(), first.output())
                starter = await reader.start(start, "start")
                await wait_until(lambda: len(api.journal) > 1, 60, what="the second request")
                await first.kill()
            async with reader.running(worker, "worker-again", "polling"):
                assert await starter.wait(60) == 0
                assert "Refunded 5 euros." in starter.output()
                outputs = [await said(reader, line) for line in reader.block("starter.py status")]
                steered = [await said(reader, line) for line in reader.block("starter.py send")]
    assert [status for status, _ in outputs] == [0, 0, 0, 0]
    # The run has ended meanwhile, and says so; cancelling it does no harm.
    assert [status for status, _ in steered] == [2, 2, 2, 0]
    assert all("ended" in told for _, told in steered)
    assert "Refunded 5 euros." in outputs[0][1]
    assert '"requests": 3' in outputs[2][1]
    with closing(sqlite3.connect(tmp_path / ".onward" / "payments.db")) as books:
        assert books.execute("SELECT amount_cents FROM effects").fetchall() == [(500,)]
    everything = {line for block in blocks("bash") for line in lines(block)}
    assert everything == reader.typed | RUN_ELSEWHERE
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert load_app("refunds:app").agent("refunds").limits.max_steps == 50


def said_by_worker() -> str:
    """The worker's start lines as the README shows them, `…` standing for anything."""
    (shown,) = blocks("text")
    return re.escape(shown.strip()).replace("…", ".*")


async def said(reader: Reader, command: str) -> tuple[int, str]:
    """Run a command to its end; returns its exit status and what it printed."""
    process = await reader.start(command, f"command-{abs(hash(command))}")
    return await process.wait(60), process.output()


async def test_make_demo_is_the_demo() -> None:
    """`make demo` runs the command that the demo's own tests run."""
    process = await asyncio.create_subprocess_exec(
        "make", "-n", "demo", cwd=ROOT, env=dict(os.environ), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert b"starter.py demo" in printed
