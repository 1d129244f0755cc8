"""What a worker stands on: looked at before it polls, kept in order while it works."""

import logging
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any, cast

from temporalio.client import Client
from temporalio.worker import Worker

from onward import claude
from onward.agents import App
from onward.claude_key import key_trouble
from onward.models.fit import retirement
from onward.own_code import own
from onward.redis_server.connection import loaded, redis_client, redis_errors, shown
from onward.redis_server.guarantee import Guarantee, guarantee, refuse_eviction, refuse_mode
from onward.redis_server.memory import run_sizes
from onward.redis_server.permissions import refuse_missing
from onward.search_attributes import register, troubles
from onward.settings import Settings, misspelt
from onward.tools.orphans import guard
from onward.workers.company import Company
from onward.workers.former_releases import refuse_former
from onward.workers.janitor import Janitor
from onward.workers.log import START
from onward.workers.payload_folder import mark
from onward.workers.presence import Presence

_log = logging.getLogger(START)


class Standing:
    """The clients of one worker, and the servers that they lead to.

    Raises `AppError` for an agent that could not run, `UsageError` for an address that is none.
    """

    def __init__(self, app: App, settings: Settings, temporal: Client) -> None:
        app.check()
        self._app, self._settings = app, settings
        self._redis, self._anthropic = redis_client(settings.redis_url), claude.client()
        self._temporal = temporal
        self._janitor = Janitor(self._redis, temporal, every_s=settings.janitor_every_s)
        self.services: Any = own("activities.services").Services(
            app=app,
            redis=self._redis,
            anthropic=self._anthropic,
            temporal=temporal,
            takeover_s=settings.takeover_s,
            history_events=settings.history_events,
            rate_caps=settings.rate_limits,
            search_attributes=True,
        )
        """What the worker's activities share."""

    @asynccontextmanager
    async def kept(self, worker: Worker) -> AsyncGenerator[None]:
        """Look at all that the worker needs, say what was found, and let it work in the block.

        Raises:
            ConnectError: Redis does not answer.
            UsageError: Redis or the payload folder cannot be worked with, or another worker of the
                task queue cannot.

        """
        guard()
        import_module("onward.workers.preload")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._anthropic)
            await stack.enter_async_context(self._redis)
            async with redis_errors(self._settings.redis_url):
                warnings = [*await self._looked_at(), *await self._accompanied(worker, stack)]
            attributes = await register(self._temporal)
            self.services.known_attributes = attributes.usable
            warnings += map(str, troubles(self._temporal, attributes))
            for warning in warnings:
                _log.warning("%s", warning)
            await stack.enter_async_context(self._janitor.working())
            _log.info("polling  task queue %r (process %s)", worker.task_queue, os.getpid())
            yield

    async def _looked_at(self) -> Sequence[str]:
        """Look at Redis, and say what was found; gives warnings."""
        found = await self._ledger()
        memory = filter(None, (found.memory, await run_sizes(self._redis)))
        self.services.strict = found.strict
        _log.info("Redis    %s, %s", shown(self._settings.redis_url), found)
        _log.info("memory   %s", ", ".join(map(str, memory)))
        _log.info("agents   %s", ", ".join(self._app.agents))
        return [*self._warnings(found)]

    async def _accompanied(self, worker: Worker, stack: AsyncExitStack) -> Sequence[str]:
        """Be one of the task queue's workers until `stack` ends; gives warnings of the others."""
        await refuse_former(self._temporal, worker.task_queue, _log.info)
        folder = self._settings.payload_folder.absolute()
        me = Presence.of(
            cast("dict[str, Any]", worker.config())["identity"] or self._temporal.identity,
            tuple(self._app.agents),
            app=self._settings.app,
            folder=str(folder),
            marker=mark(folder),
        )
        company = Company(self._redis, self._temporal.namespace, worker.task_queue)
        return await stack.enter_async_context(company.present(me))

    async def _ledger(self) -> Guarantee:
        await loaded(self._redis, _log.info)
        await refuse_missing(self._redis)
        found = await guarantee(self._redis)
        refuse_mode(found)
        if not self._settings.allow_eviction:
            refuse_eviction(found)
        return found

    def _warnings(self, found: Guarantee) -> Iterator[str]:
        yield from misspelt()
        if trouble := key_trouble(claude.key(self._anthropic)):
            yield f"{trouble}; set ANTHROPIC_API_KEY and start again"
        if found.evicts:
            yield "this Redis may drop records when full; set maxmemory-policy noeviction"
        if found.memory.full:
            yield f"this Redis is too full for new runs: {found.memory}"
        models = (retirement(agent.model) for agent in self._app.agents.values())
        yield from filter(None, dict.fromkeys(models))
