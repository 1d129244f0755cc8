"""The command that looks at a run's limits and changes them."""

from onward.cli.parameters import AsJson, By, RunId, perform
from onward.limits.options import NO_LIMITS_TYPED, TypedLimits


def limit(
    run_id: RunId,
    /,
    *,
    limits: TypedLimits = NO_LIMITS_TYPED,
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Show what is used of a run's limits, or raise or lower them while the run goes on.

    Example: onward limit refunds-2026-11

    Each limit counts from the beginning of the run: --max-cost-usd 5 lets it spend 5 dollars in
    all. What is not given stays as it is. A run that waits at a limit goes on when that is raised;
    one that has used more than a new limit allows stops before its next step. What is under way
    is not cut off.

    Example: onward limit refunds-2026-11 --max-cost-usd 5 --max-minutes 240

    Parameters
    ----------
    run_id
        Id of the run.
    by
        Who you are (default: your user name and host).
    as_json
        Print one JSON document: of each limit what is used, what is allowed, and whether it is met.

    """
    from onward.limits import command  # noqa: PLC0415

    return perform(lambda out: command.limit(run_id, limits, out, by=by), as_json=as_json)
