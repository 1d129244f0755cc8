"""The compose file as Debian's `docker-compose` reads it, and its Redis without a container."""

import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import ROOT

from onward.local_services import RedisServer
from onward.local_services.data_dir import HeldFolder, held_folder
from onward.testing import clean_env

TEXT = (ROOT / "docker-compose.yml").read_text()
EXAMPLE = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
SECRETS = {"ANTHROPIC_API_KEY", "REDIS_PASSWORD", "POSTGRES_PASSWORD"}
FILLED_IN = EXAMPLE | dict.fromkeys(SECRETS, "s3cret")
"""What a person's `.env` says."""


def compose(env: Mapping[str, str], *more_files: Path) -> subprocess.CompletedProcess[str]:
    """Run `docker-compose config` with these settings; skips where that is not installed."""
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("COMPOSE FILE NOT READ: apt-get install docker-compose")
    # Debian's Python runs it, to which another one's libraries are of no use.
    without = {name: value for name, value in clean_env(env).items() if name != "PYTHONPATH"}
    files = [word for file in more_files for word in ("--file", str(file))]
    return subprocess.run(
        [program, "--file", str(ROOT / "docker-compose.yml"), *files, "config"],
        env=without,
        cwd="/",  # whoever has a .env beside the file must not be asked
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def services() -> dict[str, Any]:
    """Describe the services as they are with the settings of the example."""
    read = compose(FILLED_IN)
    assert read.returncode == 0, read.stderr
    return dict(yaml.safe_load(read.stdout)["services"])


class ComposeRedis(RedisServer):
    """Debian's Redis, started with the very command line of the compose file."""

    def __init__(self, folder: HeldFolder, binary: Path) -> None:
        super().__init__(folder, binary)
        self.words = shlex.split(services()["redis"]["command"])

    @property
    def url(self) -> str:
        """Where it is, for the user that workers are."""
        return f"redis://onward:{FILLED_IN['REDIS_PASSWORD']}@127.0.0.1:{self.ports[0]}/0"

    def _command(self) -> list[str]:
        here = ["--port", str(self.ports[0]), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        return [*self.words, *here, "--set-proc-title", "no"]

    async def _answers(self) -> bool:
        return self.healthy()

    def healthy(self) -> bool:
        """Run the service's health check."""
        kind, check = services()["redis"]["healthcheck"]["test"]
        assert kind == "CMD-SHELL"
        command = check.replace("redis-cli", f"redis-cli -p {self.ports[0]}")
        env = clean_env(services()["redis"]["environment"])
        return subprocess.run(["sh", "-c", command], env=env, check=False).returncode == 0


@asynccontextmanager
async def compose_redis() -> AsyncGenerator[ComposeRedis]:
    """Run that server; skips where this machine has no redis-server."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("COMPOSE FILE'S REDIS NOT RUN: apt-get install redis-server")
    with held_folder(None, "redis") as folder:
        server = ComposeRedis(folder, Path(binary))
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
