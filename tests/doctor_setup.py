"""What `doctor` looks at in its tests: servers, workers and an app, one part of it broken."""

import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from agent_double import AgentDouble
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from onward.local_services import RedisServer
from onward.settings import Settings
from onward.testing import wait_until
from onward.workers.company import Company
from onward.workers.payload_folder import mark
from onward.workers.pollers import polled
from onward.workers.presence import Presence

APP = """
from onward import Agent, App, Limits

app = App(Agent("coder", model={model!r}, limits=Limits({limits})))
"""


class Setup:
    """Servers, a worker and an app with which all is well, until a test breaks something."""

    def __init__(
        self, client: Client, server: RedisServer, redis: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.client, self.server, self.redis, self.monkeypatch = client, server, redis, monkeypatch
        self.stack, self._workers = AsyncExitStack(), 0
        self.call = False

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)

    def app(self, model: str, limits: str = "") -> None:
        """Have another app in the folder where we stand."""
        name = f"app_{uuid.uuid4().hex}"
        Path(f"{name}.py").write_text(APP.format(model=model, limits=limits))
        self.set(ONWARD_APP=f"{name}:app")

    async def living(self, **fields: Any) -> None:
        """Have one more worker tell that it lives, whatever it thinks of the others."""
        settings = Settings()
        folder = settings.payload_folder.absolute()
        own = Presence.of(
            self.client.identity, ["coder"], app="", folder=str(folder), marker=mark(folder)
        )
        self._workers += 1
        told = own.model_copy(update={"settled": True, "since_ms": self._workers} | fields)
        key = f"{Company(self.redis, 'default', settings.task_queue).prefix}{told.id}"
        await self.redis.set(key, told.model_dump_json(), px=30_000)

    async def polls(self, build_id: str) -> None:
        """Have a worker poll that tells Redis nothing."""
        queue, temporal = Settings().task_queue, self.client.service_client.config.target_host
        other = await Client.connect(temporal, identity="77@elsewhere")
        await self.stack.enter_async_context(
            Worker(
                other,
                task_queue=queue,
                workflows=[AgentDouble],
                workflow_runner=UnsandboxedWorkflowRunner(),
                build_id=build_id,
            )
        )
        await wait_until(lambda: polled(self.client, queue), 30, what="the worker being listed")
