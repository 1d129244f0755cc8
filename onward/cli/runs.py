"""Commands about runs: start one, look at it, stop it."""

import re
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from onward.cli.parameters import AsJson, By, RunId, RunOrNone, Tags, perform
from onward.limits.options import NO_LIMITS_TYPED, TypedLimits


def _no_option(_type: object, prompt: str | None) -> None:
    # A lone `-` is standard input and "- first, …" a list, but `--wiat` a slip of the fingers:
    # taken for a prompt it would start a run that costs money.
    if prompt is not None and re.fullmatch(r"-\S+", prompt):
        raise ValueError(f"unknown option {prompt!r}")


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
    tag: Tags = (),
    limits: TypedLimits = NO_LIMITS_TYPED,
    as_json: AsJson = False,
) -> int:
    """Start a run, or attach to the one that has this --id.

    Prints the run's id at once; with --wait stays until the run has ended, prints Claude's last
    words, and exits by the outcome.

    Example: onward start "Rename parse() to read()" --workspace . --wait

    With --id the command is safe to repeat: while that run goes on it attaches to it, once it has
    ended it prints that run's result and starts nothing. Ids are remembered for as long as
    Temporal keeps closed runs (the namespace's retention, often a few days).

    Example: onward start --file refunds.md --id refunds-2026-11

    A run has limits, which are shown when it starts: its agent's own (often 100 steps, $5, 20
    million tokens, 4 million of them written by Claude, and 60 minutes) where none is given here.
    A model whose price is not known needs --max-cost-usd none. `limit` changes them in mid-run.

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
    tag
        What to find the run by, as in --tag order=1042; may be given more than once.
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
        tags=tag,
        limits=limits,
    )
    return perform(lambda out: commands.start(options, out), as_json=as_json)


def status(run_id: RunId, /, *, as_json: AsJson = False) -> int:
    """Say how a run goes: its step, what it does right now, what it cost, what holds it up.

    Example: onward status refunds-2026-11

    Parameters
    ----------
    run_id
        Id of the run.
    as_json
        Print one JSON document.

    """
    from onward import commands  # noqa: PLC0415

    return perform(lambda out: commands.status(run_id, out), as_json=as_json)


def cancel(
    run_id: RunOrNone = None,
    /,
    *,
    agent: str | None = None,
    every: Annotated[bool, Parameter(name="--all")] = False,
    dry_run: bool = False,
    yes: bool = False,
    after_step: bool = False,
    reason: str = "",
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Ask a run to stop, or all runs of an agent; it ends cleanly, with what it has so far.

    What Claude is writing is cut off, and paid for; a call that has an effect comes to a definite
    end first. Calls that wait for a person never run.

    Example: onward cancel refunds-2026-11 --reason "wrong list"

    With --agent and --all in place of RUN: shows the agent's open runs, asks, and stops them all.

    Example: onward cancel --agent support --all --dry-run

    Parameters
    ----------
    run_id
        Id of the run.
    agent
        With --all: stop runs of this agent.
    every
        Stop every open run of the --agent, those too that begin meanwhile.
    dry_run
        Only show which runs --all would stop.
    yes
        Do not ask whether to stop them.
    after_step
        Let the step under way end first, unless it waits for a person.
    reason
        Why; it is kept with the run.
    by
        Who you are (default: your user name and host).
    as_json
        Print one JSON document.

    """
    from onward.steering import stopping  # noqa: PLC0415

    options = stopping.CancelOptions(
        agent=agent,
        every=every,
        after_step=after_step,
        reason=reason,
        by=by,
        dry_run=dry_run,
        yes=yes,
    )
    return perform(lambda out: stopping.cancel(run_id, options, out), as_json=as_json)


def result(run_id: RunId, /, *, wait: bool = False, as_json: AsJson = False) -> int:
    """Print a run's result, and exit by its outcome.

    Example: onward result refunds-2026-11 --wait > answer.txt

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

    return perform(lambda out: commands.result(run_id, out, wait=wait), as_json=as_json)


def list_(
    *,
    agent: str | None = None,
    status: str | None = None,
    tag: Tags = (),
    waiting: bool = False,
    sort: Literal["started", "cost", "tokens", "step"] | None = None,
    limit: Annotated[int, Parameter(allow_leading_hyphen=True)] = 20,
    as_json: AsJson = False,
) -> int:
    """List runs, or what waits for a person over all of them (exit 3 where a worker is away).

    Example: onward list --agent support --status failed

    Example: onward list --waiting

    Parameters
    ----------
    agent
        Only runs of this agent.
    status
        Only runs that are so: running, waiting, paused, cancelling, an outcome such as completed or
        limit_cost, terminated, timed_out, reset.
    tag
        Only runs with this tag, as in --tag order=1042; given more than once, with all of them.
    waiting
        List what waits for a person: approvals, doubts, limits, and at the end paused runs; each
        with the command that settles it.
    sort
        By what runs are sorted, those with the most first (default: started, the newest first).
    limit
        How many runs at most.
    as_json
        Print one JSON document.

    """
    from onward.listing import command  # noqa: PLC0415

    options = command.ListOptions(agent=agent, status=status, tags=tag, sort=sort, limit=limit)
    listing = command.list_waiting if waiting else command.list_runs
    return perform(lambda out: listing(options, out), as_json=as_json)
