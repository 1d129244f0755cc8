"""The command about money: what a run cost, or many."""

from typing import Annotated, Literal

from cyclopts import Parameter

from onward.cli.parameters import AsJson, Tags, perform


def spend(
    run_id: Annotated[str | None, Parameter(name="RUN")] = None,
    /,
    *,
    by: Literal["step", "model"] | None = None,
    since: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    tag: Tags = (),
    offline: bool = False,
    as_json: AsJson = False,
) -> int:
    """Say what a run cost so far, requests whose answer was lost included; or what many runs did.

    Also of a run that ended, was terminated, or has no worker. Of a run that was reset: what all
    its branches cost, if Redis still has their records.

    Example: onward spend refunds-2026-11 --by step

    With --since it sums up all runs that began since then, by agent and model; with --tag all that
    have it.

    Example: onward spend --since 7d

    Parameters
    ----------
    run_id
        Id of the run.
    by
        Show what each step cost, or each model.
    since
        Sum up the runs that began since then: 30m, 12h, 7d or 2w ago, or a date such as
        2026-11-01.
    tag
        Sum up the runs with this tag, as in --tag order=1042; given more than once, with all.
    offline
        Tell it from Temporal's history alone: neither a worker nor Redis is asked.
    as_json
        Print one JSON document with the keys of the workflow query `spend`. With --by step also
        `by_step`; with --since or --tag also `since`, `tags`, `runs`, `partial_runs` (they may have
        cost more) and `agents`, by agent and model.

    """
    from onward.spending import command  # noqa: PLC0415

    return perform(
        lambda out: command.spend(
            run_id, command.Many(since=since, tags=tag), out, by=by, offline=offline
        ),
        as_json=as_json,
    )
