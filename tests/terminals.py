"""Commands of `onward` on a terminal of their own, as a person sees them."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from typed_commands import ROOT

from onward.testing import wait_until

STYLES = re.compile(r"\x1b\[[\d;]*m")
MOVES = re.compile(r"\x1b\[\??[\d;]*[A-Za-z]")
CTRL_C = b"\x03"
# A test process with a size of its own would hand it on, and it counts before the terminal's.
_SIZE = {"COLUMNS", "LINES"}
# A session that opens a terminal makes it its own; only then does Ctrl-C reach the command.
_ON_ITS_OWN = 'exec "$@" <"$0" >"$0" 2>&1'


@dataclass
class Terminal:
    """A terminal in which one command runs."""

    process: asyncio.subprocess.Process
    keyboard: int
    raw: str = ""
    """What was written to it so far."""

    @property
    def text(self) -> str:
        """The same without colours and moves, as lines."""
        return MOVES.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")

    def press(self, keys: bytes) -> None:
        """Type something."""
        os.write(self.keyboard, keys)

    async def until(self, words: str) -> None:
        """Wait until the words were shown."""
        try:
            await wait_until(lambda: words in self.text, 30)
        except TimeoutError:
            raise TimeoutError(f"waited 30 s for {words!r}; shown: {self.raw[-2000:]!r}") from None

    async def ended(self) -> int:
        """Wait for the end of the command; its exit code."""
        code = await asyncio.wait_for(self.process.wait(), 60)
        await wait_until(lambda: self._drained, 10, what="the last of the output")
        return code

    _drained = False

    def read(self) -> None:
        """Take what was written since."""
        try:
            part = os.read(self.keyboard, 65536)
        except OSError:  # so Linux says that the other end of a terminal is closed
            part = b""
        self.raw += part.decode(errors="replace")
        if not part:
            self._drained = True
            asyncio.get_running_loop().remove_reader(self.keyboard)


@asynccontextmanager
async def terminal(
    *tokens: str, columns: int = 80, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Terminal]:
    """Run a command on a terminal of that width beside the block; it is ended with it."""
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in _SIZE}
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", _ON_ITS_OWN, os.ttyname(screen)),
        *(sys.executable, str(ROOT / "starter.py"), *tokens),
        env={**inherited, "TERM": "xterm-256color", **(environment or {})},
        start_new_session=True,
    )
    shown = Terminal(process, keyboard)
    asyncio.get_running_loop().add_reader(keyboard, shown.read)
    await wait_until(lambda: shown.raw or process.returncode is not None, 30, what="any output")
    os.close(screen)  # from here on the command alone holds it
    try:
        yield shown
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        asyncio.get_running_loop().remove_reader(keyboard)
        os.close(keyboard)
