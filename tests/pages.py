"""A page of documentation as its reader has it: the blocks to type, and somebody who types them.

A `bash` or `python` block is run by a test, unless the line above its fence says why not:
`<!-- not run: needs Docker -->`. Blocks of other languages show output or data.
"""

import re
import shlex
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from onward.testing import ManagedProcess, clean_env

ROOT = Path(__file__).parent.parent
RUN = ("bash", "python")
REASONS = ("needs Docker", "needs a real key", "needs an account")
"""Why a block may stay unrun."""
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_OURS = {"onward": "starter.py", "onward-worker": "worker.py"}
_NAMED = re.compile(r"(?<![\w./:-])(onward|onward-worker)(?=\s|$)")


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
    return [Block(m["language"], m["text"], m["reason"]) for m in found]


@dataclass
class Reader:
    """Somebody who types what a page says, in a folder and an environment of their own."""

    page: str
    folder: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Beside nobody's settings: where the servers are, `ONWARD_APP`."""
    typed: set[str] = field(default_factory=set[str])
    _started: int = 0

    def commands(self, containing: str) -> list[str]:
        """Commands of the one bash block that holds this text; they count as typed."""
        (block,) = (b for b in blocks(self.page) if b.language == "bash" and containing in b.text)
        self.typed |= set(block.commands)
        return block.commands

    async def types(self, command: str, changes: Mapping[str, str] | None = None) -> "Said":
        """Type a command, with `changes` made in its text first, and wait for its end."""
        process = await self._start(_changed(command, changes or {}))
        return Said(await process.wait(60), process.output())

    @asynccontextmanager
    async def running(self, command: str, ready: str) -> AsyncGenerator[ManagedProcess]:
        """Type a command and leave it running; the block begins when it has said `ready`."""
        process = await self._start(command)
        try:
            await process.logged(ready, 60)
            yield process
        finally:
            await process.stop()

    def untyped(self) -> set[str]:
        """Commands of the page that nobody typed so far, and that no reason excuses."""
        run = [b for b in blocks(self.page) if b.language == "bash" and b.reason is None]
        return {command for block in run for command in block.commands} - self.typed

    async def _start(self, command: str) -> ManagedProcess:
        self._started += 1
        return await ManagedProcess.spawn(
            ["bash", "-c", _ours(command)],
            log=self.folder / f"typed-{self._started}.log",
            env=clean_env({"PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **self.env}),
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
