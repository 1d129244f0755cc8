"""Let runs flow for an hour while a worker is killed every minute; then see what is left behind.

python -m chaos.soak --minutes 60
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter, validators

from chaos.command_line import exit_code, performed

cli = cyclopts.App(
    name="chaos.soak",
    help_format="markdown",
    version_flags=[],
    default_parameter=Parameter(negative=""),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
Positive = validators.Number(gt=0)


@cli.default
def soak(
    *,
    minutes: Annotated[float, Parameter(validator=Positive)] = 60.0,
    kill_every_s: Annotated[float, Parameter(validator=Positive)] = 60.0,
    runs_per_minute: Annotated[float, Parameter(validator=Positive)] = 30.0,
    rest_minutes: Annotated[float, Parameter(validator=Positive)] = 12.0,
    seed: int = 1,
    out: Path | None = None,
    json: bool = False,
) -> int:
    """Let runs flow while a worker is killed again and again; then see what is left behind.

    It brings its own Temporal, Redis, payments service, scripted Claude and two workers; no key is
    needed. One worker is killed (SIGKILL) and replaced, the other one lives through all of it.
    Runs ask for approvals, are denied, cancelled, terminated, continue as new, return long results.
    Temporal forgets ended runs after three minutes, and the day more for which Redis keeps their
    records is taken off, so that both can be seen to return to where they were.

        python -m chaos.soak --minutes 60
        python -m chaos.soak --minutes 2 --rest-minutes 4

    Exit codes: 0 nothing is left behind, 1 something is, or an effect is wrong; 2 wrong use.

    Args:
        minutes: How long new runs start. What is there late is compared with what was there early
            from 25 minutes on.
        kill_every_s: The worker dies in the first half of each such interval.
        runs_per_minute: How many runs start.
        rest_minutes: How long to wait, at most, until all that expires has gone. Views of replies
            take ten minutes.
        seed: Makes the moments of the kills.
        out: An empty folder for logs and data. By default a temporary one, kept if the soak fails.
        json: Print one JSON document.

    """
    # Late, so that help and mistyped options answer at once.
    from chaos.soak import driver  # noqa: PLC0415

    options = driver.Options(
        minutes=minutes,
        kill_every_s=kill_every_s,
        runs_per_minute=runs_per_minute,
        rest_minutes=rest_minutes,
        seed=seed,
        out=out,
    )
    return performed(lambda output: driver.run(options, output), as_json=json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return exit_code(cli, arguments)


if __name__ == "__main__":
    sys.exit(main())
