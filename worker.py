"""Run a worker: it begins runs, asks Claude and runs tools, until it is told to stop.

    python worker.py --local     with embedded servers, for a machine with nothing installed
    python worker.py             with the servers that the environment names

This is the composition root: every client is built here, once.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import cyclopts
from redis.asyncio import Redis
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.carry import CarryActivity
from activities.claude import ClaudeActivity
from activities.editing import EditActivity
from activities.fork import ForkActivity
from activities.lifecycle import LifecycleActivities
from activities.notify import NotifyActivity
from activities.refill import RefillActivity
from activities.resolve import ResolveActivity
from activities.services import Services
from activities.tools import ToolActivity
from onward import claude, worker_log
from onward.agents import App, load_app
from onward.connection import Target, connect, find_target
from onward.errors import ConnectError, OnwardError
from onward.guarantee import Guarantee, guarantee, refuse_eviction
from onward.janitor import Janitor
from onward.local_services import (
    LocalAddresses,
    redis_server,
    remove_local,
    temporal_server,
    write_local,
)
from onward.memory import RunSizes, run_sizes
from onward.models.fit import retirement
from onward.permissions import refuse_missing
from onward.redis_connection import ledger_url, loaded, redis_client, redis_errors, shown
from onward.search_attributes import register, troubles
from onward.settings import Settings, load_settings
from onward.tools.orphans import guard
from workflows.agent import AgentWorkflow

DRAIN = timedelta(seconds=25)
"""How long SIGTERM lets activities finish: just under the 30 s that container platforms give."""
_STICKY = timedelta(seconds=1)
_BEAT = timedelta(milliseconds=250)
"""Heartbeats reach the server at most this late, and a cancel reaches an activity as fast."""
_SLOTS = 200
_HELP = """Run a worker: it begins runs, asks Claude and runs tools, until it is told to stop.

With embedded servers, for a machine with nothing installed:

    python worker.py --local

With the servers that the environment names (TEMPORAL_ADDRESS, ONWARD_REDIS_URL):

    ONWARD_APP=refunds:app python worker.py
"""

cli = cyclopts.App(
    name="worker.py",
    help=_HELP,
    help_format="markdown",
    version_flags=[],
    # Without it the command ends in `sys.exit`, inside which the SDK's threads sometimes crash.
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)


@dataclass(frozen=True)
class Connections:
    """The servers that a worker is connected to."""

    target: Target
    temporal: Client
    redis_url: str
    redis: Redis
    guarantee: Guarantee
    run_sizes: RunSizes | None


def build_worker(services: Services, task_queue: str, **options: Any) -> Worker:
    """Make the worker that `main` runs; `options` go to `temporalio.worker.Worker`."""
    lifecycle = LifecycleActivities(services)
    activities: list[Callable[..., Any]] = [
        *(lifecycle.begin, lifecycle.end),
        ClaudeActivity(services).call_claude,
        RefillActivity(services).refill,
        CarryActivity(services).carry,
        ForkActivity(services).fork,
        ResolveActivity(services).resolve,
        EditActivity(services).edit_call,
        NotifyActivity(services).notify,
        ToolActivity(services).run_tool,
    ]
    defaults: dict[str, Any] = {
        # No user's code runs in a workflow, and the tests run ours in the sandbox. A replay takes
        # half the time without it.
        "workflow_runner": UnsandboxedWorkflowRunner(),
        "max_concurrent_activities": _SLOTS,
        "graceful_shutdown_timeout": DRAIN,
        "max_heartbeat_throttle_interval": _BEAT,
        "default_heartbeat_throttle_interval": _BEAT,
        # A killed worker's runs go on elsewhere after this long, not after ten seconds.
        "sticky_queue_schedule_to_start_timeout": _STICKY,
        # Without one the SDK hashes every module that is loaded, for a second and a half.
        "build_id": f"onward-{version('onward')}",
    }
    return Worker(
        services.temporal,
        task_queue=task_queue,
        workflows=[AgentWorkflow],
        activities=activities,
        **(defaults | options),
    )


@cli.default
async def run(
    *,
    local: Annotated[bool, cyclopts.Parameter(negative="")] = False,
    allow_eviction: Annotated[bool, cyclopts.Parameter(negative="")] = False,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C; running steps get 25 seconds to finish.

    Args:
        local: Start an embedded Temporal server with its UI and an embedded Redis-compatible
            server in ONWARD_DATA_DIR (default ./.onward). They end with this process; their data
            stays, so runs go on when it is started again.
        allow_eviction: Work with a Redis whose maxmemory-policy is not noeviction. It may drop
            records; no effect is doubled by that, but calls can end in doubt.

    """
    worker_log.set_up()
    stopping = _stop_signal()
    guard()
    settings = load_settings()
    if allow_eviction:
        settings = settings.model_copy(update={"allow_eviction": True})
    app = load_app(settings.app)
    import_module("onward.preload")
    for agent in app.agents.values():
        agent.definition()  # a tool without a schema is an error now, not in the first run
    async with _connections(settings, local=local) as connections:
        await _work(settings, app, connections, stopping)


async def _work(
    settings: Settings, app: App, connections: Connections, stopping: asyncio.Event
) -> None:
    anthropic = claude.client()
    services = Services(
        app=app,
        redis=connections.redis,
        anthropic=anthropic,
        temporal=connections.temporal,
        strict=connections.guarantee.strict,
        takeover_s=settings.takeover_s,
        history_events=settings.history_events,
        rate_caps=settings.rate_limits,
        search_attributes=True,
    )
    attributes = await register(connections.temporal)
    janitor = Janitor(connections.redis, connections.temporal, every_s=settings.janitor_every_s)
    async with build_worker(services, settings.task_queue), janitor.working():
        _say(_start_line(settings, app, connections))
        for warning in _warnings(connections.guarantee, app, has_key=claude.has_key(anthropic)):
            _say(f"warning: {warning}")
        for trouble in troubles(connections.temporal, attributes):
            _say(f"warning: {trouble}")
        await stopping.wait()
        _say(f"stopping: running steps get {DRAIN.seconds} s to finish (Ctrl-C again: now)")
    _say("stopped")


@asynccontextmanager
async def _connections(settings: Settings, *, local: bool) -> AsyncGenerator[Connections]:
    async with AsyncExitStack() as stack:
        if local:
            target, redis_url = await _start_local(settings, stack)
        else:
            target = find_target(settings)
            redis_url = ledger_url(settings, target)
        redis = redis_client(redis_url)
        stack.push_async_callback(redis.aclose)
        temporal = await connect(settings, target, stores=True)
        async with redis_errors(redis_url):
            await loaded(redis, _say)
            await refuse_missing(redis)
            found = await guarantee(redis)
            if not settings.allow_eviction:
                refuse_eviction(found)
            sizes = await run_sizes(redis)
        yield Connections(target, temporal, redis_url, redis, found, sizes)


async def _start_local(settings: Settings, stack: AsyncExitStack) -> tuple[Target, str]:
    _say("starting the embedded servers")
    temporal = await stack.enter_async_context(temporal_server(settings.data_dir))
    redis = await stack.enter_async_context(redis_server(settings.data_dir))
    addresses = LocalAddresses(
        temporal_address=temporal.address,
        namespace=temporal.namespace,
        redis_url=redis.url,
        ui_url=temporal.ui_url,
    )
    write_local(settings.data_dir, addresses)
    stack.callback(remove_local, settings.data_dir)
    return Target(temporal.address, temporal.namespace, "local", temporal.ui_url), redis.url


def _start_line(settings: Settings, app: App, connections: Connections) -> str:
    target = connections.target
    ui = f", UI {target.ui_url}" if target.ui_url else ""
    memory = filter(None, (connections.guarantee.memory, connections.run_sizes))
    return "\n".join(
        [
            f"Temporal {target.address}, namespace {target.namespace!r}{ui}",
            f"Redis    {shown(connections.redis_url)}, {connections.guarantee}",
            f"memory   {', '.join(map(str, memory))}",
            f"agents   {', '.join(app.agents)}",
            f"polling  task queue {settings.task_queue!r} (process {os.getpid()})",
        ]
    )


def _warnings(found: Guarantee, app: App, *, has_key: bool) -> list[str]:
    warnings = (
        (not has_key, "no key for Claude's API; set ANTHROPIC_API_KEY and start again"),
        (found.evicts, "this Redis may drop records when full; set maxmemory-policy noeviction"),
        (found.memory.full, f"this Redis is too full for new runs: {found.memory}"),
    )
    models = (retirement(agent.model) for agent in app.agents.values())
    return [*(text for warned, text in warnings if warned), *filter(None, dict.fromkeys(models))]


def _stop_signal() -> asyncio.Event:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def interrupt() -> None:
        if stopping.is_set():
            os._exit(130)  # Ctrl-C twice: the watcher ends the servers and children
        stopping.set()

    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    return stopping


def _say(text: str) -> None:
    print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong usage, 3 if a server is away."""
    try:
        cli(arguments)
    except cyclopts.CycloptsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (ConnectError, RPCError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except OnwardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The SDK's threads sometimes crash an interpreter that exits the long way.
    os._exit(code)
