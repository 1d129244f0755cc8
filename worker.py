"""Run a worker: it begins runs, asks Claude and runs tools, until it is told to stop.

    onward-worker --local     with embedded servers, for a machine with nothing installed
    onward-worker             with the servers that the environment names

What it runs is `onward.OnwardPlugin`'s, which a team can add to a worker of its own as well.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from typing import Annotated, NoReturn

import cyclopts
from temporalio.service import RPCError
from temporalio.worker import Worker

from onward.agents import App, load_app
from onward.connection import Target, connect, find_target
from onward.errors import ConnectError, OnwardError
from onward.invoked import worker as typed_worker
from onward.local_services import (
    LocalAddresses,
    redis_server,
    remove_local,
    temporal_server,
    write_local,
)
from onward.plugin import OnwardPlugin
from onward.plugin.options import DRAIN
from onward.redis_server.connection import ledger_url
from onward.settings import Settings, load_settings
from onward.tools.orphans import guard
from onward.workers import log as worker_log

_SLOTS = 200
_HELP = """Run a worker: it begins runs, asks Claude and runs tools, until it is told to stop.

With embedded servers, for a machine with nothing installed:

    onward-worker --local

With the servers that the environment names (TEMPORAL_ADDRESS, ONWARD_REDIS_URL):

    ONWARD_APP=refunds:app onward-worker
"""

cli = cyclopts.App(
    name="onward-worker",
    help=_HELP,
    help_format="markdown",
    version_flags=[],
    # Without it the command ends in `sys.exit`, inside which the SDK's threads sometimes crash.
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
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
    app.check()
    async with AsyncExitStack() as stack:
        if local:
            target, redis_url = await _start_local(settings, stack)
        else:
            target = find_target(settings)
            redis_url = ledger_url(settings, target)
        settings = settings.model_copy(update={"redis_url": redis_url})
        await _work(app, settings, target, stopping)


async def _work(app: App, settings: Settings, target: Target, stopping: asyncio.Event) -> None:
    plugin = OnwardPlugin(app, settings)
    temporal = await connect(settings, target, plugins=[plugin])
    ui = f", UI {target.ui_url}" if target.ui_url else ""
    _say(f"Temporal {target.address}, namespace {target.namespace!r}{ui}")
    worker = Worker(
        temporal,
        task_queue=settings.task_queue,
        max_concurrent_activities=_SLOTS,
        # Without one the SDK hashes every module that is loaded, for a second and a half.
        build_id=f"onward-{version('onward')}",
    )
    await _run_until(stopping, worker)
    _say("stopped")


async def _run_until(stopping: asyncio.Event, worker: Worker) -> None:
    running, told = asyncio.create_task(worker.run()), asyncio.create_task(stopping.wait())
    await asyncio.wait((running, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if worker.is_running:
        _say(f"stopping: running steps get {DRAIN.seconds} s to finish (Ctrl-C again: now)")
        await worker.shutdown()
    elif not running.done():
        # It waits, for Redis to read its data for instance, and would hear of the end after that.
        running.cancel()
    with suppress(asyncio.CancelledError):
        await running


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
    with suppress(OSError):  # a log on a full disk, or that nobody reads any more, ends no worker
        print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong usage, 3 if a server is away."""
    try:
        cli(arguments)
    except cyclopts.CycloptsError as error:
        hint = f"`{typed_worker('--help')}` shows what is possible"
        print(f"error: {error} {hint}", file=sys.stderr)
        return 2
    except (ConnectError, RPCError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except OnwardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def process() -> NoReturn:
    """Run the command line of this process, and end it."""
    code = main()
    with suppress(OSError, AttributeError):  # as in `_say`; None where it was closed (`>&-`)
        sys.stdout.flush()
        sys.stderr.flush()
    # The SDK's threads sometimes crash an interpreter that exits the long way.
    os._exit(code)


if __name__ == "__main__":
    process()
