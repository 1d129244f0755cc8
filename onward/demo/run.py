"""The demo from its first server to its last line, and its clean end whatever happens."""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Generator
from contextlib import AsyncExitStack

from onward.demo import DemoOptions, protected, unprotected
from onward.demo.report import Report, lines, report
from onward.demo.stage import stage
from onward.demo.view import view
from onward.tools.orphans import guard

INTERRUPTED = 128
"""Exit status of a demo that was stopped: this and the signal's number, as shells have it."""


async def run(options: DemoOptions) -> int:
    """Run it; see `onward.demo.run_demo`."""
    guard()  # whatever happens to us, our processes end
    with _stoppable() as signals:
        try:
            return await _run(options)
        except asyncio.CancelledError:
            if not signals:
                raise
            return INTERRUPTED + signals[0]


async def _run(options: DemoOptions) -> int:
    began = time.monotonic()
    async with AsyncExitStack() as cleanup:
        here = await cleanup.enter_async_context(stage(kills=options.kills, seed=options.seed))
        with view(silent=options.json) as seen:
            version = unprotected.run if options.unprotected else protected.run
            evidence, bill = await version(here, seen, cleanup)
        found = report(
            evidence,
            bill,
            seed=options.seed,
            unprotected=options.unprotected,
            seconds=time.monotonic() - began,
        )
        _print(found, as_json=options.json)
        if _interactive(options) and found.ui_url:
            await _enter(found.ui_url)
    return 0 if found.ok else 1


def _print(found: Report, *, as_json: bool) -> None:
    text = json.dumps(found.to_json(), indent=2) if as_json else "\n".join(lines(found))
    print(text, flush=True)  # noqa: T201  (the demo's output)


def _interactive(options: DemoOptions) -> bool:
    if options.interactive is not None:
        return options.interactive
    return not options.json and sys.stdin.isatty() and sys.stdout.isatty()


async def _enter(ui_url: str) -> None:
    """Keep the servers for a look at the run, until Enter or the end of input.

    Without a thread, which would keep us alive. Who cannot press Enter gets no link either: it
    would be dead when it is read.
    """
    loop, pressed = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(sys.stdin, pressed.set)
    except (OSError, ValueError):
        return  # nothing can be typed here: a file, or closed
    print(f"The run in the Temporal UI: {ui_url}\nEnter to stop", flush=True)  # noqa: T201
    try:
        await pressed.wait()
        sys.stdin.readline()  # else the shell would get the line
    finally:
        loop.remove_reader(sys.stdin)


@contextlib.contextmanager
def _stoppable() -> Generator[list[int]]:
    """Cancel this task at the first Ctrl-C or SIGTERM; yield the signals that came.

    A second one changes nothing: what it would interrupt is the cleaning up, which ends by itself.
    """
    loop, task, came = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

    def stop(number: int) -> None:
        came.append(number)
        if len(came) == 1 and task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        yield came
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
