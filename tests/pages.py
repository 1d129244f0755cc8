"""A page of documentation as its reader has it: the blocks to type, and somebody who types them.

A `bash` or `python` block is run by a test, unless the line above its fence says why not:
`<!-- not run: needs Docker -->`. Blocks of other languages show output or data.
"""

import os
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from agent_double import Cli

from onward.testing import ManagedProcess, clean_env

ROOT = Path(__file__).parent.parent
RUN = ("bash", "python")
REASONS = ("needs Docker", "needs a real key", "needs an account")
"""Why a block may stay unrun."""
_BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- not run: (?P<reason>[^\n]+) -->\n(?P=indent))?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_OURS = {"onward": "starter.py", "onward-worker": "worker.py"}
_NAMED = re.compile(r"(?<![\w./:-])(onward|onward-worker)(?=\s|$)")
_SHELL = re.compile(r"[|<>;&$]")
"""What takes a shell."""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    reason: str | None
    """Why no test runs it; None: one does."""

    @property
    def commands(self) -> list[str]:
        """Its commands, each with its continuation lines, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]


def blocks(page: str) -> list[Block]:
    """Fenced blocks of a page, such as `docs/limits.md`, in order."""
    found = _BLOCK.finditer((ROOT / page).read_text())
    return [Block(m["language"], dedent(m["text"]), m["reason"]) for m in found]


@dataclass
class Reader:
    """Somebody who types what a page says, in a folder and an environment of their own.

    A test that plays a page ends with `assert reader.untyped() == set()`; test_pages.py looks for
    that, and for the page's name where the reader is made.
    """

    page: str
    folder: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Beside nobody's settings: where the servers are, `ONWARD_APP`; what is exported is added."""
    cli: Cli | None = None
    """Runs plain commands of `onward` in this process, in its environment: ten times faster."""
    _done: set[str] = field(default_factory=set[str])
    _started: int = 0

    def commands(self, containing: str) -> list[str]:
        """Commands of the one bash block that holds this text."""
        return self._block("bash", containing).commands

    def code(self, containing: str) -> str:
        """Text of the one python block that holds this text; the test must run it."""
        text = self._block("python", containing).text
        self._done.add(text)
        return text

    async def types(
        self, command: str, changes: Mapping[str, str] | None = None, deadline_s: float = 60
    ) -> "Said":
        """Type a command, with `changes` made in its text first, and wait for its end."""
        self._done.add(command)
        typed = _changed(command, changes or {})
        words = shlex.split(typed, comments=True)
        if words[0] == "export":
            self.env |= dict(word.split("=", 1) for word in words[1:])
            return Said(0, "")
        if self.cli and words[0] == "onward" and not _SHELL.search(typed):
            ran = await self.cli(*words[1:])
            return Said(ran.code, ran.out + ran.err)
        process = await self._start(typed)
        return Said(await process.wait(deadline_s), process.output())

    @asynccontextmanager
    async def running(
        self, command: str, ready: str, changes: Mapping[str, str] | None = None
    ) -> AsyncGenerator[ManagedProcess]:
        """Type a command and leave it running; the block begins when it has said `ready`."""
        self._done.add(command)
        process = await self._start(_changed(command, changes or {}))
        try:
            await process.logged(ready, 60)
            yield process
        finally:
            await process.stop()

    def untyped(self) -> set[str]:
        """Commands and code of the page that nobody typed so far, and that no reason excuses."""
        run = [block for block in blocks(self.page) if block.reason is None]
        commands = {each for block in run if block.language == "bash" for each in block.commands}
        code = {block.text for block in run if block.language == "python"}
        return (commands | code) - self._done

    def _block(self, language: str, containing: str) -> Block:
        of_language = (block for block in blocks(self.page) if block.language == language)
        (found,) = (block for block in of_language if containing in block.text)
        return found

    async def _start(self, command: str) -> ManagedProcess:
        self._started += 1
        env = {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
        return await ManagedProcess.spawn(
            ["bash", "-c", _ours(command)],
            log=self.folder / f"typed-{self._started}.log",
            env=clean_env({**env, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **self.env}),
            cwd=self.folder,
        )


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it printed."""

    status: int
    output: str


def _changed(command: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        assert old in command, (old, command)
        command = command.replace(old, new)
    return command


def _ours(command: str) -> str:
    """Put this checkout in place of an installed Onward, as a shell would find it."""
    return _NAMED.sub(lambda m: shlex.join([sys.executable, str(ROOT / _OURS[m[1]])]), command)
