"""`bash` of the built-in `coder`: one command in a fresh shell in the workspace.

This is no sandbox. The command runs as the worker's user, may read and write whatever that user
may, and may use the network. Its environment lacks variables that look like secrets, which keeps
them out of a transcript and no more: files with secrets can still be read. Run the worker in a
container, or as a user of its own, if that matters.
"""

import asyncio
import os
import re
import signal
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from onward.errors import Rejected
from onward.tools import orphans
from onward.tools.context import ToolContext
from onward.tools.decorator import tool
from onward.tools.files import workspace_of

TIMEOUT_S = 600.0
LIMIT_S = TIMEOUT_S - 10.0
"""A command is killed a little before the tool's own time is up: that it was killed is a result
that Claude can go on from, while a tool that passes its time is in doubt."""

_HEAD_BYTES = 44 * 1024
_TAIL_BYTES = 16 * 1024
_CHUNK_BYTES = 16 * 1024
_LAST_WORDS_S = 1.0
_CALL_MARK = "ONWARD_BASH_CALL"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_SECRET = re.compile(
    r"ANTHROPIC_.*|ONWARD_.*|TEMPORAL_.*|REDIS_.*|.*_API_KEY|.*_TOKEN|.*_SECRET|.*PASSWORD"
    # bash runs the file that BASH_ENV names before the command.
    r"|BASH_ENV",
    re.IGNORECASE,
)


@tool(effect="at_most_once", timeout_s=TIMEOUT_S)
async def bash(command: str, ctx: ToolContext) -> str:
    """Run a command in a fresh bash shell in the workspace; no state is kept between calls.

    There is no input to read and no terminal. Standard output and errors come back together, the
    exit code if it is not 0. Everything the command started, background processes included, is
    killed when the command ends, at the latest after 590 seconds.
    """
    return await run_command(command, workspace_of(ctx), limit_s=LIMIT_S)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what looks like a secret, and without Onward's settings.

    Left out, whatever the case of letters: names that begin with `ANTHROPIC_`, `ONWARD_`,
    `TEMPORAL_` or `REDIS_`, names that end with `_API_KEY`, `_TOKEN`, `_SECRET` or `PASSWORD`, and
    `BASH_ENV`. Kept: the mark by which orphans are found.
    """
    return {
        name: value
        for name, value in variables.items()
        if name == orphans.MARK or not _SECRET.fullmatch(name)
    }


async def run_command(command: str, folder: Path, *, limit_s: float) -> str:
    """Run a command and return what it wrote, with a last line about an end other than exit 0.

    Raises `Rejected` if no shell could be started, and nothing else of its own.
    """
    call = uuid.uuid4().hex
    output = _Output()
    # Our own pipe: asyncio's `wait` waits for the end of a pipe of its own, which a child in the
    # background keeps open.
    read_end, write_end = os.pipe()
    try:
        process = await _start(command, folder, call, write_end)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    reading = asyncio.create_task(_read(read_end, output))
    try:
        await asyncio.wait_for(process.wait(), limit_s)
        end = _end(process.returncode)
    except TimeoutError:
        end = f"[killed after {limit_s:g} s; what the command had done by then stays done]"
    finally:
        await _stop(process, call, reading)
    return "\n".join(part for part in (output.text(), end) if part)


async def _start(command: str, folder: Path, call: str, output: int) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc", "-c", command),
            cwd=folder,
            env=environment(os.environ) | {_CALL_MARK: call, "TERM": "dumb"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # no bash, too long, a NUL in it
        raise Rejected(f"bash: the command could not be started ({error})") from error


async def _stop(
    process: asyncio.subprocess.Process, call: str, reading: "asyncio.Task[None]"
) -> None:
    """Kill the shell and all that it started, and take what they still had to say."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process that made itself a session of its own has left the group, but not its environment.
    # Not on this loop: looking at all processes takes a while.
    await asyncio.shield(asyncio.to_thread(orphans.kill_marked, _CALL_MARK, call))
    await asyncio.wait([reading], timeout=_LAST_WORDS_S)
    reading.cancel()
    await asyncio.wait([reading])
    await process.wait()


async def _read(read_end: int, output: "_Output") -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            output.add(chunk)
    finally:
        transport.close()


def _end(code: int | None) -> str:
    if code is None or code == 0:
        return ""
    return f"[exit code {code}]" if code > 0 else f"[ended by signal {-code}]"


class _Output:
    """What a command wrote: the beginning and the end of it, however much that is."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        room = _HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        excess = len(self._tail) - _TAIL_BYTES
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        note = f"\n[{self._dropped} bytes left out here]\n" if self._dropped else ""
        head = bytes(self._head).decode(errors="replace")
        tail = bytes(self._tail).decode(errors="replace")
        return _ANSI.sub("", f"{head}{note}{tail}").rstrip("\n")
