"""The way in: connect, start runs, find those that there are."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client as TemporalClient

from onward import connection, run_input, starting
from onward.client.handle import RunHandle
from onward.connection import Connection, Target
from onward.listing import Which, find
from onward.listing.finding import Sort
from onward.messages import LimitOverrides, RunRequest, Workspace
from onward.payload_store import data_converter, reads
from onward.runs import Run
from onward.settings import Settings, load_settings
from onward.starting import How, Started
from onward.tags import as_texts, parse_tags


class StartedRun(RunHandle):
    """The run that has the id now, and how it came to be."""

    def __init__(self, connection: Connection, started: Started) -> None:
        """Take what `starting.start` found."""
        super().__init__(connection, started.run.id)
        self.started = started

    @property
    def how(self) -> How:
        """`started`; `attached` to one that goes on already; `ended`: nothing was started."""
        return self.started.how


@dataclass(frozen=True)
class Client:
    """Starts runs, and finds them again."""

    connection: Connection
    warn: Callable[[str], None] = logging.getLogger("onward.client").warning
    """Told what a person should know, and what keeps no run from starting."""

    async def start(
        self,
        prompt: str,
        *,
        agent: str = "coder",
        run_id: str | None = None,
        again: bool = False,
        model: str | None = None,
        limits: LimitOverrides | None = None,
        tags: Mapping[str, str] | None = None,
        workspace: str | Path | None = None,
        allow_dirty: bool = False,
    ) -> StartedRun:
        """Start a run, or attach to the one of that id.

        Args:
            prompt: what the agent is to do.
            agent: one of the workers' app.
            run_id: names the job, which is then done once, however often it is asked for. None: a
                new one.
            again: the id's last run has ended; start it once more, with new idempotency keys.
            model: instead of the agent's own.
            limits: those that are set hold instead of the agent's own.
            tags: what people find the run by.
            workspace: folder on this host that the agent works in.
            allow_dirty: work in a git folder although it has changes that are not committed.

        Raises:
            UsageError: something that is given is not possible, or the id is another job's.
            RedisFull: there is no room for a new run's records.
            ConnectError: Temporal does not answer.

        """
        request = run_request(
            prompt,
            agent=agent,
            model=model,
            limits=limits or LimitOverrides(),
            tags=parse_tags(as_texts(tags or {})),
            workspace=workspace,
        )
        name = run_input.new_id(agent) if run_id is None else run_input.checked_id(run_id)
        return await self.start_request(name, request, again=again, allow_dirty=allow_dirty)

    async def start_request(
        self, run_id: str, request: RunRequest, *, again: bool = False, allow_dirty: bool = False
    ) -> StartedRun:
        """Start what was checked already; else as `start`."""
        settings, target = self.connection.settings, self.connection.target
        deployment = settings.deployment or target.namespace

        async def before_new() -> None:
            # Only a new run needs a clean tree: the one to attach to has changed it already.
            if request.workspace is not None:
                _prepared(request.workspace.path, allow_dirty=allow_dirty)
            from onward.redis_server.room import check_room  # noqa: PLC0415  (loads the Redis client)

            await check_room(settings, target, self.warn)

        started = await starting.start(
            self.connection.client,
            run_id,
            request.model_copy(update={"deployment": deployment}),
            task_queue=settings.task_queue,
            again=again,
            before_new=before_new,
        )
        return StartedRun(self.connection, started)

    def attach(self, run_id: str) -> RunHandle:
        """Return a handle on the newest run of that id; asks nobody whether there is one.

        Raises UsageError for what can be no id.
        """
        return RunHandle(self.connection, run_id)

    async def list(
        self,
        *,
        agent: str = "",
        state: str = "",
        tags: Mapping[str, str] | None = None,
        sort: Sort = "started",
        limit: int = 20,
    ) -> Sequence[Run]:
        """Find runs, the newest or those with most of `sort` first, as `onward list` does.

        Raises ConnectError, UsageError.
        """
        which = Which(agent=agent, state=state, tags=tags or {})
        return await find(self.connection.client, which, sort=sort, limit=limit)


async def connect(temporal: TemporalClient | None = None) -> Client:
    """Connect to Temporal where `onward` would: by its own settings, or `onward-worker --local`.

    Args:
        temporal: a client of yours, whose connection and namespace are used instead.

    Raises:
        ConnectError: no Temporal answers there in 3 s, or it has no such namespace.
        UsageError: a setting is not possible.

    """
    settings = load_settings()
    if temporal is not None:
        return Client(_over(temporal, settings))
    target = connection.find_target(settings)
    return Client(Connection(await connection.connect(settings, target), target, settings))


def run_request(
    prompt: str,
    *,
    agent: str,
    model: str | None,
    limits: LimitOverrides,
    tags: Mapping[str, str],
    workspace: str | Path | None,
) -> RunRequest:
    """Check what a run is asked for; `tags` were checked. Raises UsageError."""
    return RunRequest(
        prompt=run_input.checked_text(prompt),
        agent=run_input.checked_agent(agent),
        model=model,
        workspace=None if workspace is None else _prepared(workspace, allow_dirty=True),
        limits=limits,
        tags={**tags},
    )


def _prepared(folder: str | Path, *, allow_dirty: bool) -> Workspace:
    from onward.tools.workspace import prepare  # noqa: PLC0415  (loads a good deal)

    return prepare(Path(folder), allow_dirty=allow_dirty)


def _over(temporal: TemporalClient, settings: Settings) -> Connection:
    """Use a client's connection, but Onward's data converter unless the client has the plugin.

    Its own codec would write what `onward-worker` cannot read.
    """
    config: dict[str, Any] = {**temporal.config(active_config=True), "plugins": []}
    if not reads(config["data_converter"]):
        config["data_converter"] = data_converter(settings.payload_folder, stores=False)
    client = TemporalClient(**config)
    address = temporal.service_client.config.target_host
    return Connection(client, Target(address, temporal.namespace, "configured"), settings)
