"""Commands of `starter.py` as a person types them, in this process or in one of their own."""

import asyncio
import subprocess
import sys
import uuid
from pathlib import Path

from agent_double import Cli

from onward.testing import wait_until

ROOT = Path(__file__).parent.parent
DONE = "Done: [bold]naïve[/bold] ✓"
"""The last words of the double."""


def new_id() -> str:
    return f"run/{uuid.uuid4().hex[:8]}"


async def waiting(cli: Cli) -> str:
    """Start a run that waits until it is stopped."""
    run_id = new_id()
    await cli("start", "waits", "--id", run_id)
    await until_doing(cli, run_id, "12.1 bash")
    return run_id


async def until_doing(cli: Cli, run_id: str, what: str) -> None:
    async def does() -> bool:
        return bool((await cli("status", run_id, "--json")).json["doing"] == what)

    await wait_until(does, 20, what=f"{run_id} doing {what!r}")


async def until_trouble(cli: Cli, run_id: str, what: str) -> None:
    async def troubled() -> bool:
        return what in str((await cli("status", run_id, "--json")).json["troubles"])

    await wait_until(troubled, 20, what=f"{run_id} in trouble: {what!r}")


async def process(*tokens: str) -> tuple[int | None, str, str]:
    command = await piped(*tokens)
    out, err = await command.communicate()
    return command.returncode, out.decode(), err.decode()


async def piped(*tokens: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "starter.py"),
        *tokens,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def line_with(stream: asyncio.StreamReader, text: str) -> None:
    async with asyncio.timeout(30):
        while text.encode() not in (line := await stream.readline()):
            assert line, f"it ended without {text!r}"
