"""What the commands of this folder have in common: how they run, and how they end."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import cyclopts

if TYPE_CHECKING:
    from onward.console import Output


def performed(work: "Callable[[Output], Coroutine[Any, Any, int]]", *, as_json: bool) -> int:
    """Do the work and return its exit code; 2, with what is wrong, for what is not possible."""
    # Late, so that help and mistyped options answer at once.
    from onward.console import Output  # noqa: PLC0415
    from onward.errors import OnwardError  # noqa: PLC0415

    output = Output(as_json=as_json)
    try:
        return asyncio.run(work(output))
    except OnwardError as error:
        output.error(str(error))
        return 2
    finally:
        output.flush()


def exit_code(cli: cyclopts.App, arguments: Sequence[str] | None) -> int:
    """Run a command line; returns its exit code."""
    try:
        return cli(arguments) or 0  # help returns nothing
    except cyclopts.CycloptsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
