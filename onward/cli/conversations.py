"""Commands about a run's conversation: follow it, show it, go on from a copy of it."""

from typing import Annotated, Literal

from cyclopts import Parameter

from onward.cli.parameters import AsJson, RunId, Tags, perform
from onward.limits.options import NO_LIMITS_TYPED, TypedLimits


def watch(
    run_id: RunId,
    /,
    *,
    all_steps: Annotated[bool, Parameter(name="--all")] = False,
    as_json: AsJson = False,
) -> int:
    """Follow a run as it happens: what Claude writes, its calls, their results, what it costs.

    It begins with the current step, from its start, and stays until the run has ended; then it
    exits by the outcome, as `result` does. Where the run waits for you, it says what to type, in
    another terminal. Ctrl-C leaves the run alone. As many may watch as like to.

    A worker that dies takes nothing with it but the reply that Claude was writing: its step begins
    again, and you are told what to drop. Without Redis each step is shown when it is whole.

    Example: onward watch refunds-2026-11

    Parameters
    ----------
    run_id
        Id of the run.
    all_steps
        Tell the steps before the current one, too.
    as_json
        Print a JSON document a line, for scripts: docs/watching.md lists their kinds.

    """
    from onward.live import command  # noqa: PLC0415

    return perform(lambda out: command.watch(run_id, out, all_steps=all_steps), as_json=as_json)


def transcript(
    run_id: RunId,
    /,
    *,
    form: Annotated[Literal["text", "json", "html"], Parameter(name="--format")] = "text",
    whole: bool = False,
    as_json: AsJson = False,
) -> int:
    """Print the whole conversation of a run, from Temporal's history alone.

    Of a run that goes on, it is printed as far as it is. What was asked again is left out, only the
    reply that counts is shown. No worker and no Redis is needed; long results are read from the
    payload folder (ONWARD_PAYLOAD_DIR).

    Example: onward transcript refunds-2026-11 --format html > refunds.html

    Parameters
    ----------
    run_id
        Id of the run.
    form
        text for people; json for Claude's API: system, tools and messages exactly as they were
        sent; html for one file that needs nothing else.
    whole
        Do not cut long inputs and results in the text.
    as_json
        The same as --format json.

    """
    from onward.retelling import command  # noqa: PLC0415

    shown = "json" if as_json else form
    return perform(
        lambda out: command.transcript(run_id, out, form=shown, whole=whole), as_json=as_json
    )


def fork(
    run_id: RunId,
    /,
    *,
    step: Annotated[int | None, Parameter(allow_leading_hyphen=True)] = None,
    message: str | None = None,
    new_id: Annotated[str | None, Parameter(name="--id")] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False,
    wait: bool = False,
    tag: Tags = (),
    limits: TypedLimits = NO_LIMITS_TYPED,
    as_json: AsJson = False,
) -> int:
    """Start a new run that goes on from a copy of another run's conversation.

    So a run that ended, was cancelled or failed can go on, or take another turn from an earlier
    step. The new run has its own id and keys; nothing that was done is done again under them, and
    nothing is undone. If the other run did something after the step, that is listed, and --yes is
    needed; Claude is then told of it. Calls that were open are settled first: what may have
    happened, Claude is told so. Spend and limits of the new run count from its beginning; where no
    limit is given, the other run's hold anew.

    Example: onward fork refunds-2026-11 --step 12 --message "Leave order A-7 out"

    Parameters
    ----------
    run_id
        Id of the run to copy.
    step
        The last step to copy, with the results of its calls (default: all of them). Of a run that
        goes on, a finished step must be named.
    message
        What you say to Claude next.
    new_id
        Name the new run; asked for the same again, the command attaches to it.
    yes
        Go on although the other run did something after the step.
    wait
        Stay until the new run has ended. Ctrl-C leaves it running.
    tag
        What to find the new run by, instead of the other run's tags.
    as_json
        Print one JSON document; what was done since is its `effects_after`, also without --yes.

    """
    from onward.forking import command  # noqa: PLC0415

    options = command.ForkOptions(
        step=step,
        message=message,
        new_id=new_id,
        yes=yes,
        wait=wait,
        tags=tag,
        limits=limits,
    )
    return perform(lambda out: command.fork(run_id, options, out), as_json=as_json)
