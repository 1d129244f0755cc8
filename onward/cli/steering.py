"""Commands that say something to a run as it goes: a message to Claude, pause, go on."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from onward.cli.parameters import AsJson, By, RunId, RunOrNone, perform


def send(
    run_id: RunId,
    text: Annotated[str | None, Parameter(name="TEXT", allow_leading_hyphen=True)] = None,
    /,
    *,
    file: Path | None = None,
    message_id: Annotated[str, Parameter(name="--id")] = "",
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Tell Claude something; it sees that at its next step, after the results of its calls.

    What is sent is seen once and in order, whatever happens to workers meanwhile. If the run was
    just about to end, it goes on and answers; once it has ended, nothing is sent, and `fork` starts
    a run that goes on from there.

    Example: onward send refunds-2026-11 "Leave order A-7 out"

    Parameters
    ----------
    run_id
        Id of the run.
    text
        What you say, in quotes; - reads it from standard input.
    file
        Read it from this file instead.
    message_id
        Name the message: sent again under the same name, it still counts once.
    by
        Who you are (default: your user name and host).
    as_json
        Print one JSON document.

    """
    from onward.steering import one_run  # noqa: PLC0415

    return perform(
        lambda out: one_run.send(run_id, text, out, file=file, name=message_id, by=by),
        as_json=as_json,
    )


def pause(
    run_id: RunOrNone = None,
    /,
    *,
    agent: str | None = None,
    reason: str = "",
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Let a run finish its step, and then wait until somebody says `resume`.

    Example: onward pause refunds-2026-11 --reason "looking into order A-7"

    With --agent in place of RUN: no run of that agent begins a new effect from now on; what is
    under way goes to its end, and Claude and reads go on.

    Example: onward pause --agent support --reason "refunds are doubled"

    Parameters
    ----------
    run_id
        Id of the run.
    agent
        Stop new effects of all runs of this agent.
    reason
        Why; it is shown to whoever looks at the run.
    by
        Who you are (default: your user name and host).
    as_json
        Print one JSON document.

    """
    from onward.pausing import command  # noqa: PLC0415

    return perform(lambda out: command.pause(run_id, agent, reason, out, by=by), as_json=as_json)


def resume(
    run_id: RunOrNone = None,
    /,
    *,
    agent: str | None = None,
    reason: str = "",
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Let a run go on that was paused; or with --agent, let an agent's runs have effects again.

    Example: onward resume refunds-2026-11

    Parameters
    ----------
    run_id
        Id of the run.
    agent
        Lift the pause of this agent.
    reason
        Why; the history of a RUN keeps it.
    by
        Who you are (default: your user name and host).
    as_json
        Print one JSON document.

    """
    from onward.pausing import command  # noqa: PLC0415

    return perform(lambda out: command.resume(run_id, agent, reason, out, by=by), as_json=as_json)
