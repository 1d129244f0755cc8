"""The demo: a real refactor and a few refunds, by an agent whose worker is killed again and again.

`run_demo` does the main job with Onward, or, `unprotected`, the same as a plain loop. Both end with
an audit that is read from outside: files, the payments service's own tables, exit statuses.
"""

from dataclasses import dataclass

__all__ = ["DemoOptions", "run_demo"]


@dataclass(frozen=True)
class DemoOptions:
    """What `onward demo` was asked for."""

    json: bool = False
    """Print one JSON object at the end and nothing else on stdout."""
    kills: int = 3
    """How often to SIGKILL the worker, 0 to 12."""
    seed: int = 0
    """Decides amounts, order ids and where the kills strike."""
    unprotected: bool = False
    """The same script and kills for a plain loop without Onward."""
    interactive: bool | None = None
    """Wait for Enter at the end, so that the UI link can be opened. None: on a terminal."""


async def run_demo(options: DemoOptions) -> int:
    """Run the demo, print its audit, and return the exit status: 0 only if the audit holds.

    130 and 143 after Ctrl-C and SIGTERM. Raises UsageError for options that cannot be, and
    ProcessFailed where one of its servers does not start.
    """
    # Late, because the worker imports this package too, for the demo's agent alone.
    from onward.demo.run import run  # noqa: PLC0415

    return await run(options)
