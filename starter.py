"""The commands that a person types: start an agent run, look at it, stop it.

Here is only how they are typed; what they do is in `onward/commands.py`, which is loaded when a
command runs, so that help and a mistyped option answer at once.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

if TYPE_CHECKING:
    from onward.console import Output

BROKEN_PIPE = 141
"""What a shell shows of a command whose reader went away."""


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415

    return f"onward {version('onward')}"


def _no_option(_type: object, prompt: str | None) -> None:
    # A lone `-` is standard input and "- first, …" a list, but `--wiat` a slip of the fingers:
    # taken for a prompt it would start a run that costs money.
    if prompt is not None and re.fullmatch(r"-\S+", prompt):
        raise ValueError(f"unknown option {prompt!r}")


app = App(
    name="starter.py",
    help=(
        "Run Claude agents that survive crashes. A run goes on in the workers "
        "(`python worker.py`); these commands start it, look at it and stop it.\n\n"
        "Exit codes: 0 completed, 1 failed, 2 wrong use, 3 cannot connect, 4 no such run, "
        "5 cancelled, 6 a limit was reached, 7 Claude stopped (refused, no room left)."
    ),
    version=_version,
    default_parameter=Parameter(negative=""),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)

RunId = Annotated[str, Parameter(name="RUN")]
AsJson = Annotated[bool, Parameter(name="--json")]


@app.command
def start(
    prompt: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, validator=_no_option)
    ] = None,
    /,
    *,
    file: Path | None = None,
    agent: str = "coder",
    run_id: Annotated[str | None, Parameter(name="--id")] = None,
    again: bool = False,
    wait: bool = False,
    workspace: Path | None = None,
    allow_dirty: bool = False,
    model: str | None = None,
    max_steps: Annotated[int | None, Parameter(allow_leading_hyphen=True)] = None,
    max_cost_usd: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    max_tokens: Annotated[int | None, Parameter(allow_leading_hyphen=True)] = None,
    max_minutes: Annotated[float | None, Parameter(allow_leading_hyphen=True)] = None,
    as_json: AsJson = False,
) -> int:
    """Start a run, or attach to the one that has this --id.

    Prints the run's id at once; with --wait stays until the run has ended, prints Claude's last
    words, and exits by the outcome.

    Example: python starter.py start "Rename parse() to read()" --workspace . --wait

    With --id the command is safe to repeat: while that run goes on it attaches to it, once it has
    ended it prints that run's result and starts nothing. Ids are remembered for as long as
    Temporal keeps closed runs (the namespace's retention, often a few days).

    Example: python starter.py start --file refunds.md --id refunds-2026-11

    Parameters
    ----------
    prompt
        What the agent is to do; - reads it from standard input.
    file
        Read the prompt from this file instead.
    agent
        Which agent of the workers' app.
    run_id
        Name the run; another prompt, agent or workspace under the same name is refused.
    again
        The --id's last run has ended: start it once more. Its idempotency keys are new.
    wait
        Stay until the run has ended. Ctrl-C leaves it running.
    workspace
        Folder that the agent works in.
    allow_dirty
        Work in a git folder although it has changes that are not committed.
    model
        Model to use instead of the agent's own.
    max_steps
        End after so many requests to Claude (default: the agent's own limit, often 100).
    max_cost_usd
        End when this many dollars are spent (often 5).
    max_tokens
        End when this many tokens are used.
    max_minutes
        End after this many minutes of running (often 60).
    as_json
        Print one JSON document.

    """
    from onward import commands  # noqa: PLC0415

    options = commands.StartOptions(
        prompt=prompt,
        file=file,
        agent=agent,
        run_id=run_id,
        again=again,
        wait=wait,
        workspace=workspace,
        allow_dirty=allow_dirty,
        model=model,
        max_steps=max_steps,
        max_cost_usd=max_cost_usd,
        max_tokens=max_tokens,
        max_minutes=max_minutes,
    )
    return _perform(lambda out: commands.start(options, out), as_json=as_json)


@app.command
def status(run_id: RunId, /, *, as_json: AsJson = False) -> int:
    """Say how a run goes: its step, what it does right now, what it cost, what holds it up.

    Example: python starter.py status refunds-2026-11

    Parameters
    ----------
    run_id
        Id of the run.
    as_json
        Print one JSON document.

    """
    from onward import commands  # noqa: PLC0415

    return _perform(lambda out: commands.status(run_id, out), as_json=as_json)


@app.command
def spend(run_id: RunId, /, *, as_json: AsJson = False) -> int:
    """Say what a run cost so far, requests whose answer was lost included.

    Example: python starter.py spend refunds-2026-11 --json

    Parameters
    ----------
    run_id
        Id of the run.
    as_json
        Print one JSON document, the same as the workflow query `spend` answers.

    """
    from onward import commands  # noqa: PLC0415

    return _perform(lambda out: commands.spend(run_id, out), as_json=as_json)


@app.command
def cancel(run_id: RunId, /, *, reason: str = "", as_json: AsJson = False) -> int:
    """Ask a run to stop; it ends cleanly, with what it has so far.

    Example: python starter.py cancel refunds-2026-11 --reason "wrong list"

    Parameters
    ----------
    run_id
        Id of the run.
    reason
        Why; it is kept with the run.
    as_json
        Print one JSON document.

    """
    from onward import commands  # noqa: PLC0415

    return _perform(lambda out: commands.cancel(run_id, reason, out), as_json=as_json)


@app.command
def result(run_id: RunId, /, *, wait: bool = False, as_json: AsJson = False) -> int:
    """Print a run's result, and exit by its outcome.

    Example: python starter.py result refunds-2026-11 --wait > answer.txt

    Parameters
    ----------
    run_id
        Id of the run.
    wait
        Stay until the run has ended.
    as_json
        Print one JSON document.

    """
    from onward import commands  # noqa: PLC0415

    return _perform(lambda out: commands.result(run_id, out, wait=wait), as_json=as_json)


@app.command(name="list")
def list_(
    *,
    limit: Annotated[int, Parameter(allow_leading_hyphen=True)] = 20,
    as_json: AsJson = False,
) -> int:
    """List the newest runs.

    Example: python starter.py list --limit 5

    Parameters
    ----------
    limit
        How many at most.
    as_json
        Print one JSON document.

    """
    from onward import commands  # noqa: PLC0415

    return _perform(lambda out: commands.list_runs(limit, out), as_json=as_json)


@app.command
def demo(
    *,
    kills: Annotated[int, Parameter(allow_leading_hyphen=True)] = 3,
    seed: Annotated[int, Parameter(allow_leading_hyphen=True)] = 0,
    unprotected: bool = False,
    interactive: Annotated[bool | None, Parameter(negative="--no-interactive")] = None,
    as_json: AsJson = False,
) -> int:
    """See it work, with no key and no servers: an agent whose worker is killed again and again.

    Example: python starter.py demo --kills 5

    Parameters
    ----------
    kills
        How often the worker is killed with SIGKILL.
    seed
        Decides amounts, ids and where the kills strike.
    unprotected
        Do the same as a plain loop, without Onward, to see what goes wrong then.
    interactive
        Wait for Enter at the end, so that the UI can be opened (default: on a terminal).
    as_json
        Print one JSON document.

    """
    from onward.demo import DemoOptions, run_demo  # noqa: PLC0415

    options = DemoOptions(
        json=as_json, kills=kills, seed=seed, unprotected=unprotected, interactive=interactive
    )
    return _perform(lambda _: run_demo(options), as_json=as_json)


def run(tokens: Sequence[str]) -> int:
    """Run one command line to its exit code."""
    try:
        return int(app(tokens) or 0)
    except CycloptsError as error:
        print(f"error: {_said(error)}", file=sys.stderr)
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return 130


def _said(error: CycloptsError) -> str:
    command = " ".join(("starter.py", *(error.command_chain or ())))
    hint = f"`{command} --help` shows what is possible"
    if isinstance(error, UnusedCliTokensError):
        hint = f"Put a prompt or an id of several words in quotes; {hint}"
    text = str(error).strip().rstrip(".")
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
    # Not sys.exit: the Temporal client's threads can crash the interpreter while it shuts down,
    # and a command that did its work would end with SIGABRT.
    os._exit(code)


def _perform(command: "Callable[[Output], Coroutine[Any, Any, int]]", *, as_json: bool) -> int:
    from onward.commands import perform  # noqa: PLC0415

    return perform(command, as_json=as_json)


if __name__ == "__main__":
    main()
