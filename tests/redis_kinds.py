"""The kinds of Redis-compatible servers that a user may have."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from onward.local_services import RedisServer
from onward.local_services.data_dir import held_folder
from onward.local_services.redis import find_valkey

Kind = Literal["valkey", "redis"]
KINDS: tuple[Kind, ...] = ("valkey", "redis")


@asynccontextmanager
async def server_of(kind: Kind) -> AsyncGenerator[RedisServer]:
    """Run a server of that kind: the embedded Valkey, or the machine's own Redis."""
    with held_folder(None, "redis") as folder:
        server = RedisServer(folder, binary_of(kind))
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


def binary_of(kind: Kind) -> Path:
    """Find the server binary of that kind; skips the test where the machine has none."""
    if kind == "valkey":
        return find_valkey()
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("NOT TESTED ON REDIS: no redis-server on PATH; apt-get install redis-server")
    return Path(found)
