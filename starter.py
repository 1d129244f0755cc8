"""The commands that a person types: start an agent run, look at it, decide, stop it.

How each is typed is in `onward/cli/`, what it does in `onward/commands.py` and its neighbours.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError

from onward import invoked
from onward.cli import (
    completions,
    conversations,
    ledger,
    limits,
    people,
    runs,
    spending,
    steering,
    trials,
)
from onward.terminal import Stream

BROKEN_PIPE = 141
"""What a shell shows of a command whose reader went away."""


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415

    return f"onward {version('onward')}"


def _worth_showing(default: object) -> str | None:
    return None if default is False or default in (None, "") else str(default)


app = App(
    name="onward",
    help=(
        "Run Claude agents that survive crashes. A run goes on in the workers "
        "(`onward-worker`); these commands start it, look at it, decide what it asks, and stop "
        "it.\n\n"
        "Exit codes: 0 completed, 1 failed, 2 wrong use, 3 cannot connect, 4 no such run, "
        "5 cancelled, 6 a limit was reached, 7 Claude stopped (refused, no room left), 8 it waits "
        "for a person."
    ),
    version=_version,
    console=Stream(),
    default_parameter=Parameter(negative="", show_default=_worth_showing),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)


def completion(shell: completions.Shell, /) -> None:
    """Print what makes a shell complete these commands; docs/commands.md says how to keep it.

    Example: eval "$(onward completion bash)"

    Parameters
    ----------
    shell
        bash, zsh or fish.

    """
    print(completions.script(app, shell))


COMMANDS: dict[str, tuple[Callable[..., object], ...]] = {
    "Run": (
        runs.start,
        conversations.watch,
        runs.status,
        runs.result,
        runs.list_,
        runs.cancel,
    ),
    "Steer": (
        steering.send,
        steering.pause,
        steering.resume,
        people.approve,
        people.deny,
        people.resolve,
        limits.limit,
    ),
    "Account": (spending.spend, ledger.audit, conversations.transcript, conversations.fork),
    "Set up": (ledger.doctor, trials.demo, trials.crashtest, ledger.restored, completion),
}
"""By group, in the order in which `--help` shows them."""

for rank, (name, commands) in enumerate(COMMANDS.items()):
    group = Group(name, sort_key=rank)
    for place, command in enumerate(commands):
        app.command(command, group=group, sort_key=place)
app["--help"].group = app["--version"].group = (Group("Options", sort_key=len(COMMANDS)),)


def run(tokens: Sequence[str]) -> int:
    """Run one command line to its exit code."""
    try:
        return int(app(tokens) or 0)
    except CycloptsError as error:
        Stream(sys.stderr).print_line(f"error: {_said(error)}", "bold red")
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return 130


def _said(error: CycloptsError) -> str:
    hint = f"`{invoked.typed(*(error.command_chain or ()), '--help')}` shows what is possible"
    if isinstance(error, UnusedCliTokensError):
        hint = f"Put a prompt or an id of several words in quotes; {hint}"
    # Of an unknown command it lists some of those that there are, cut off: the help has them all.
    text = str(error).partition("Available commands:")[0].strip().rstrip(".")
    return f"{text}{'' if text.endswith('?') else '.'} {hint}"


def main() -> NoReturn:
    """Run the command line of this process, and end it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an odd letter is no reason to print nothing
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = BROKEN_PIPE
    if warm := sys.modules.get("onward.testing.warm"):  # a crash test forks its workers
        warm.remove_fork_folder()
    # Not sys.exit: the Temporal client's threads can crash the interpreter while it shuts down,
    # and a command that did its work would end with SIGABRT.
    os._exit(code)


if __name__ == "__main__":
    main()
