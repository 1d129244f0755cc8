"""Commands with which a person decides about a call that waits."""

from typing import Annotated, Literal

from cyclopts import Parameter

from onward.cli.parameters import AsJson, By, CallId, RunId, perform

View = Annotated[str, Parameter(name="--view")]


def approve(
    run_id: RunId,
    call: CallId,
    /,
    *,
    edit: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    remember: bool = False,
    view: View = "",
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Let a call run that waits for an approval, as Claude asked for it or as you edit it.

    Example: onward approve refunds-2026-11 12.1

    An edited input is checked as Claude's own was, and Claude is told which input really ran.

    Example: onward approve refunds-2026-11 12.1 --edit '{"order": 1042, "cents": 500}'

    Parameters
    ----------
    run_id
        Id of the run.
    call
        The call, as `status` and `list --waiting` show it: 12.1 is step 12, call 1.
    edit
        The whole input with which the call shall run instead, a JSON object; @FILE reads it from a
        file, - from standard input.
    remember
        In this run, calls of the same tool that ask for the same reason need no approval any more.
        Not with --edit: you approved that one input.
    view
        The `view` of the call in `status --json` that you decided on; if it is another one by now,
        nothing is done. By default: what waits right now.
    by
        Who you are (default: your user name and host).
    as_json
        Print one JSON document.

    """
    from onward.steering import deciding  # noqa: PLC0415

    return perform(
        lambda out: deciding.approve(
            run_id, call, out, edit=edit, remember=remember, view=view, by=by
        ),
        as_json=as_json,
    )


def deny(
    run_id: RunId,
    call: CallId,
    /,
    *,
    why: str = "",
    view: View = "",
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Refuse a call that waits for an approval; Claude is told, and goes on without it.

    Example: onward deny refunds-2026-11 12.1 --why "the customer was paid by phone"

    Parameters
    ----------
    run_id
        Id of the run.
    call
        The call, like 12.1.
    why
        Told to Claude.
    view
        As for `approve`.
    by
        As for `approve`.
    as_json
        Print one JSON document.

    """
    from onward.steering import deciding  # noqa: PLC0415

    return perform(
        lambda out: deciding.deny(run_id, call, why, out, view=view, by=by), as_json=as_json
    )


def resolve(
    run_id: RunId,
    call: CallId,
    outcome: Annotated[Literal["done", "failed", "retry"], Parameter(name="OUTCOME")],
    /,
    *,
    note: str = "",
    view: View = "",
    by: By = "",
    as_json: AsJson = False,
) -> int:
    """Settle a call in doubt: look whether it happened, then say so.

    `done`: it happened. `failed`: it did not, and shall not. `retry`: it did not, and shall be
    tried again. The last two are refused while a request may still land: what you saw missing may
    yet appear. If the truth has come meanwhile, it stands, whatever you say.

    Example: onward resolve refunds-2026-11 12.1 done --note "on the bank statement"

    Parameters
    ----------
    run_id
        Id of the run.
    call
        The call, like 12.1.
    outcome
        done, failed or retry.
    note
        Told to Claude.
    view
        As for `approve`.
    by
        As for `approve`.
    as_json
        Print one JSON document.

    """
    from onward.steering import deciding  # noqa: PLC0415

    return perform(
        lambda out: deciding.resolve(run_id, call, outcome, note, out, view=view, by=by),
        as_json=as_json,
    )
