"""Run many agent runs while everything is killed, paused, wiped and cut; then audit.

    python chaos/run.py --minutes 1

Here is only how it is typed; `driver.py` is loaded when it runs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter, validators

from chaos.command_line import exit_code, performed

cli = cyclopts.App(
    name="chaos/run.py",
    help_format="markdown",
    version_flags=[],
    default_parameter=Parameter(negative=""),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
Positive = validators.Number(gt=0)
_MOST_WORKERS = 32


@cli.default
def chaos(
    *,
    runs: Annotated[int, Parameter(validator=Positive)] = 1,
    at_once: Annotated[int, Parameter(validator=Positive)] = 12,
    minutes: Annotated[float, Parameter(validator=Positive)] = 1.0,
    seed: int = 1,
    workers: Annotated[int, Parameter(validator=validators.Number(gt=0, lte=_MOST_WORKERS))] = 3,
    out: Path | None = None,
    plan: bool = False,
    forgetful: bool = False,
    json: bool = False,
) -> int:
    """Run many agent runs while everything is killed, paused, wiped and cut; then audit.

    It brings its own Temporal, Redis, payments service, scripted Claude and workers; no key is
    needed. Workers are killed (SIGKILL) and paused past their lease (SIGSTOP), Redis and Temporal
    are killed and come back, Redis is flushed, and a proxy in front of Redis and of payments
    delays, cuts in the middle, or swallows only the reply. Meanwhile agents call tools of all six
    effect classes. At the end the payments service's books and the workflows' results say whether
    an effect was doubled or lost, and whether each doubt is explained by a fault that struck
    between the call's witness and its record.

        python chaos/run.py --minutes 10 --seed 7
        python chaos/run.py --minutes 10 --seed 7 --plan     the faults, without striking
        python chaos/run.py --minutes 0.2 --forgetful        an audit that must fail

    Exit codes: 0 the audit holds, 1 it fails, 2 wrong use.

    Args:
        runs: Start at least this many; new ones start until the minutes are over.
        at_once: So many runs are open at a time.
        minutes: How long faults strike. Then every run must end.
        seed: Makes the plan of faults and what the runs do. Another seed, other chaos.
        workers: Worker processes. Whichever is killed is replaced.
        out: An empty folder for logs, data and `faults.jsonl` (what struck when). By default a
            temporary one, which is kept if the audit fails.
        plan: Only print the plan of faults.
        forgetful: Break the payments service: it ignores keys and its first answer is lost.
        json: Print one JSON document.

    """
    # Late, so that help and mistyped options answer at once. Workers are forked from a process that
    # runs this file's imports too.
    from chaos import driver  # noqa: PLC0415
    from onward.console import Output  # noqa: PLC0415

    options = driver.Options(
        runs=runs,
        at_once=at_once,
        minutes=minutes,
        seed=seed,
        workers=workers,
        forgetful=forgetful,
        out=out,
    )
    if plan:
        driver.show_plan(options, Output(as_json=json))
        return 0
    return performed(lambda output: driver.run(options, output), as_json=json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return exit_code(cli, arguments)


if __name__ == "__main__":
    sys.exit(main())
