"""A real PostgreSQL server on loopback, in a folder of its own, for as long as a test needs it."""

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from onward.local_services.ports import free_ports
from onward.testing import ManagedProcess, clean_env

_DEBIAN = Path("/usr/lib/postgresql")  # its server is not on PATH: one folder for each version
_START_S = 60.0


@asynccontextmanager
async def postgres_server() -> AsyncGenerator[str]:
    """Run a server with an empty database; gives its URL. Skips where none is installed."""
    programs = _programs()
    with tempfile.TemporaryDirectory(prefix="onward-postgres-") as folder:
        data = Path(folder) / "data"
        data.mkdir()
        for path in (Path(folder), data):
            shutil.chown(path, _user())
        await _run("initdb", programs, "-D", str(data), "-U", "onward", "--auth=trust", "--no-sync")
        (port,) = free_ports(1)
        url = f"postgresql://onward@127.0.0.1:{port}/postgres"
        server = await _spawn(
            *(str(programs / "postgres"), "-D", str(data), "-p", str(port)),
            *("-h", "127.0.0.1", "-k", "", "-c", "shared_buffers=16MB", "-c", "fsync=off"),
            log=Path(folder) / "server.log",
        )
        try:
            await server.until(lambda: _answers(url), _START_S, what="its first answer")
            yield url
        finally:
            server.signal(signal.SIGINT)  # at once; SIGTERM waits for its clients
            await server.stop()


def _programs() -> Path:
    on_path = shutil.which("postgres")
    found = [Path(on_path).parent] if on_path else sorted(_DEBIAN.glob("*/bin"))
    if not found:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    return found[-1]


def _user() -> str:
    """Name the user it runs as: it refuses to be root."""
    return "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


async def _spawn(*argv: str, log: Path) -> ManagedProcess:
    user = _user()
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    whole = [*as_user, *argv] if os.geteuid() == 0 else list(argv)
    return await ManagedProcess.spawn(whole, log=log, env=clean_env(), cwd=log.parent)


async def _run(program: str, programs: Path, *args: str) -> None:
    folder = Path(args[1]).parent
    process = await _spawn(str(programs / program), *args, log=folder / f"{program}.log")
    assert await process.wait(_START_S) == 0, process.tail()


async def _answers(url: str) -> bool:
    try:
        await (await psycopg.AsyncConnection.connect(url)).close()
    except psycopg.OperationalError:
        return False
    return True
