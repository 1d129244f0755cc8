"""What a doctor looks at: the servers, as far as they answer, the app, and who works there."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError
from temporalio.client import Client

from onward.agents import App, load_app
from onward.checks import Check
from onward.connection import Target, connect, quiet_runtime
from onward.errors import AppError, ConnectError, UsageError
from onward.redis_server.connection import ledger_url, redis_client, redis_errors
from onward.settings import Settings
from onward.workers.company import Company
from onward.workers.presence import Presence


class Absent(Exception):
    """What a look needs is not there; its own line has said it."""


class Site:
    """A Temporal namespace, a Redis and an app, as this process is configured for them."""

    def __init__(self, settings: Settings, target: Target) -> None:
        self.settings, self.target = settings, target
        self.redis_url = ledger_url(settings, target)
        self.living: tuple[Presence, ...] = ()
        """Workers of the task queue that told Redis so; none where it cannot be asked."""
        self.missing: dict[str, Check] = {}
        """Why something is not there, by its name."""
        self._there: dict[str, Any] = {}

    @property
    def temporal(self) -> Client:
        """The connection to Temporal. Raises `Absent`."""
        return cast("Client", self._found("Temporal"))

    @property
    def redis(self) -> Redis:
        """The connection to the ledger's Redis. Raises `Absent`."""
        return cast("Redis", self._found("Redis"))

    @property
    def app(self) -> App:
        """The app that a worker would have here. Raises `Absent`."""
        return cast("App", self._found("app"))

    @asynccontextmanager
    async def visited(self) -> AsyncGenerator[None]:
        """Reach all of it, for the block."""
        async with contextlib.AsyncExitStack() as stack:
            await asyncio.gather(self._reach_temporal(), self._reach_redis(stack))
            self._load_app()
            yield

    def _found(self, name: str) -> Any:
        if name not in self._there:
            raise Absent(name)
        return self._there[name]

    async def _reach_temporal(self) -> None:
        try:
            client = await connect(self.settings, self.target, runtime=quiet_runtime())
            self._there["Temporal"] = client
        except ConnectError as error:
            self.missing["Temporal"] = Check("Temporal", "away", str(error))

    async def _reach_redis(self, stack: contextlib.AsyncExitStack) -> None:
        try:
            redis = await stack.enter_async_context(redis_client(self.redis_url))
            async with redis_errors(self.redis_url):
                with suppress(NoPermissionError):  # it answers; permissions are looked at by name
                    await cast("Any", redis).ping()
                with suppress(NoPermissionError):
                    self.living = await self._company(redis).living()
            self._there["Redis"] = redis
        except ConnectError as error:
            self.missing["Redis"] = Check("Redis", "away", str(error))
        except UsageError as error:
            self.missing["Redis"] = Check("Redis", "wrong", str(error))

    def _company(self, redis: Redis) -> Company:
        return Company(redis, self.target.namespace, self.settings.task_queue)

    def _load_app(self) -> None:
        try:
            # What a module prints when it is imported would spoil the one JSON document.
            with contextlib.redirect_stdout(sys.stderr):
                self._there["app"] = load_app(self.settings.app)
        except AppError as error:
            self.missing["app"] = Check("app", "wrong", str(error))
