"""The plugin: what it adds to a client, to a worker, to a replayer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast
from weakref import WeakKeyDictionary

from temporalio.client import Client, ClientConfig
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import ReplayerConfig, Worker, WorkerConfig

from onward.agents import App
from onward.child import in_deployment
from onward.errors import UsageError
from onward.own_code import own
from onward.plugin.converter import fit
from onward.plugin.options import knowing_us, tuned
from onward.plugin.reserved import refuse_our_names
from onward.settings import Settings, load_settings


class OnwardPlugin(SimplePlugin):
    """Adds the agents of an app to a Temporal client, and to every worker made with it.

        client = await Client.connect("localhost:7233", plugins=[OnwardPlugin(app)])
        worker = Worker(client, task_queue="orders", workflows=[Order], activities=[...])

    The client reads what agents say; a worker runs them beside its own workflows. Redis, payload
    folder and the rest come from `ONWARD_…`, as those of `onward-worker` do. A worker looks at them
    when it starts, says in the log `onward.worker` what it found, and does not begin to poll where
    it could not keep what Onward promises: its `run()` then raises one of `onward.errors`.
    """

    def __init__(self, app: App, settings: Settings | None = None) -> None:
        """Take the agents; `settings`: None means those of the environment and of `.env`.

        Raises `UsageError` for a setting that is not possible.
        """
        super().__init__("onward.OnwardPlugin")  # pyright: ignore[reportUnknownMemberType]
        self._app, self._settings = app, settings or load_settings()
        self._standing = WeakKeyDictionary[Client, Any]()
        """Of each worker, by the client that only it has."""

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """Let the client read what agents say, and send what it says to them inline."""
        config["data_converter"] = self._fit(config["data_converter"], stores=False)
        return config

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add the agents' workflow and its activities. Raises `AppError`, `UsageError`."""
        # A client without a worker does not pay for loading Claude's.
        from onward.plugin.standing import Standing  # noqa: PLC0415

        given = cast("dict[str, Any]", config)
        refuse_our_names(given, self._app)
        client = self._storing(given["client"])
        in_deployment(self._settings.deployment or "", client.namespace, given["task_queue"])
        self._standing[client] = standing = Standing(self._app, self._settings, client)
        ours = own("activities.every").activities_of(standing.services)
        added: dict[str, Any] = {
            "client": client,
            "workflows": [*given["workflows"], _workflow()],
            "activities": [*given["activities"], *ours],
        }
        return cast("WorkerConfig", tuned(given | added))

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """Let histories of agents be replayed."""
        given = cast("dict[str, Any]", config)
        changed: dict[str, Any] = {
            "data_converter": self._fit(given["data_converter"], stores=False),
            "workflows": [*given["workflows"], _workflow()],
            "workflow_runner": knowing_us(given["workflow_runner"]),
        }
        return cast("ReplayerConfig", given | changed)

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:  # noqa: A002
        """Look at what the worker stands on, then let it work. Raises one of `onward.errors`."""
        cancels = _cancels()
        if (standing := self._standing.pop(worker.client, None)) is None:
            raise UsageError(
                "the worker ran before, or its client was exchanged before it began. Make a worker "
                "anew, with the client that it is to have"
            )
        try:
            async with standing.kept(worker):
                # Python 3.11's `wait_for`, in which the Redis client sends, loses one: the worker
                # would begin after all, and whoever waits for its end waits for ever.
                if _cancels() > cancels:
                    raise asyncio.CancelledError
                await next(worker)
        finally:
            # Else the `async with` of a worker that never began waits for its end for ever.
            worker._shutdown_complete_event.set()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def _fit(self, given: DataConverter, *, stores: bool) -> DataConverter:
        return fit(given, self._settings.payload_folder, stores=stores)

    def _storing(self, client: Client) -> Client:
        """Copy the worker's client, for one that puts large payloads into the folder."""
        config = client.config(active_config=True)
        config["data_converter"] = self._fit(config["data_converter"], stores=True)
        config["plugins"] = []  # they have configured it already
        return Client(**config)


def _cancels() -> int:
    """Count the cancels that this task was asked for."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _workflow() -> Any:
    return own("workflows.agent").AgentWorkflow
