"""Everything around the tool in a crash test: real servers, Claude's side, workers."""

import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from temporalio.client import Client

from onward.connection import quiet_runtime
from onward.local_services import redis_server, temporal_server
from onward.local_services.temporal import NAMESPACE
from onward.payload_store import data_converter
from onward.testing.crash_test import worker_main
from onward.testing.crash_test.names import APP, RECORDING_ENV, TOOL_ENV
from onward.testing.crash_test.subject import Subject
from onward.testing.messages_api import ScriptedAPI
from onward.testing.warm import WarmWorker

TAKEOVER_S = 2.0
"""Longer than a worker's own: one that a busy machine stalls for a moment must not look dead."""
_ENDS_S = 10.0


@dataclass(frozen=True)
class Servers:
    """Servers of a crash test; every trial has a task queue of its own."""

    client: Client
    address: str
    redis_url: str
    api: ScriptedAPI
    folder: Path
    """For logs, recordings and large payloads."""


@dataclass(frozen=True)
class Workplace:
    """Where the workers of one trial work."""

    servers: Servers
    subject: Subject
    queue: str = field(default_factory=lambda: f"crashtest-{uuid4().hex[:12]}")

    @asynccontextmanager
    async def worker(self, name: str, env: Mapping[str, str]) -> AsyncGenerator[WarmWorker]:
        """Run a worker in the caller's folder and environment, with `env` added.

        Raises ProcessFailed, with the end of its log, where it does not start.
        """
        log = self.servers.folder / f"{self.queue}-{name}.log"
        whole = {**self._env, RECORDING_ENV: str(self.recording(name)), **env}
        worker = WarmWorker.fork(worker_main.main, [], env=whole, log=log, cwd=Path.cwd())
        try:
            await worker.ready()
            yield worker
        finally:
            worker.signal(signal.SIGKILL)  # its call is over: nobody needs a drain
            await worker.wait(_ENDS_S)

    def recording(self, name: str) -> Path:
        """File that a worker writes its recording to."""
        return self.servers.folder / f"{self.queue}-{name}.jsonl"

    @property
    def _env(self) -> dict[str, str]:
        return {
            "ONWARD_APP": APP,
            TOOL_ENV: self.subject.spec,
            "ONWARD_REDIS_URL": self.servers.redis_url,
            "ONWARD_TASK_QUEUE": self.queue,
            "ONWARD_PAYLOAD_DIR": str(payload_folder(self.servers.folder)),
            "ONWARD_TAKEOVER_S": str(TAKEOVER_S),
            "ANTHROPIC_BASE_URL": self.servers.api.url,
            "ANTHROPIC_API_KEY": "crashtest",
            "TEMPORAL_ADDRESS": self.servers.address,
            # Said although they are the defaults: a `.env` in the user's folder may say otherwise.
            "TEMPORAL_NAMESPACE": NAMESPACE,
            "TEMPORAL_TLS": "false",
            "TEMPORAL_API_KEY": "",
        }


def payload_folder(folder: Path) -> Path:
    """Where the payloads of a crash test are: nothing may be left in the user's folder."""
    return folder / "payloads"


@asynccontextmanager
async def servers() -> AsyncGenerator[Servers]:
    """Start the embedded servers and Claude's side; at the end everything is gone."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onward-crashtest-")))
        temporal = await stack.enter_async_context(temporal_server(None, ui=False))
        redis = await stack.enter_async_context(redis_server(None))
        api = await stack.enter_async_context(ScriptedAPI({}))
        client = await Client.connect(
            temporal.address,
            data_converter=data_converter(payload_folder(folder)),
            runtime=quiet_runtime(),
        )
        yield Servers(client, temporal.address, redis.url, api, folder)
