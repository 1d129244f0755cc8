"""Commands about the ledger and the servers that Onward stands on."""

from typing import Annotated

from cyclopts import Parameter

from onward.cli.parameters import AsJson, Tags, perform


def doctor(*, orphans: bool = False, call: bool = False, as_json: AsJson = False) -> int:
    """Look at everything that Onward stands on, and say what is wrong and what to do.

    That is Temporal, the workers and how their runs get on, Redis, clocks, the payload folder, the
    app with its models, the key for Claude's API, and the releases of it all. Nothing is changed.

    Exits with 0 if all is well, 1 if something is wrong, 3 if a server does not answer.

    Example: onward doctor

    Parameters
    ----------
    orphans
        List records that no run owns which Temporal knows, instead.
    call
        Ask Claude a word, too, with the key that is set here; costs far less than a cent.
    as_json
        Print one JSON document.

    """
    from onward.doctor.command import doctor as look  # noqa: PLC0415
    from onward.doctor.orphans import list_orphans  # noqa: PLC0415

    if orphans:
        return perform(list_orphans, as_json=as_json)
    return perform(lambda out: look(out, call=call), as_json=as_json)


def audit(
    run_id: Annotated[str | None, Parameter(name="RUN")] = None,
    /,
    *,
    tag: Tags = (),
    verify: bool = False,
    all_calls: Annotated[bool, Parameter(name="--all")] = False,
    as_json: AsJson = False,
) -> int:
    """Show every effect of a run: what was asked, under which key, who decided, what came of it.

    Or of all runs that have a --tag, and their sum.

    Told from Temporal's history and the ledger together; no worker is needed. Who approved, denied
    or resolved a call is what their client claimed: nobody has checked it. Without Redis it tells
    what history knows, and says what cannot be known.

    Exits with 0; with --verify 1 if ledger and history differ or records are lost, 3 if they cannot
    be compared: Redis does not answer, or a payload's file is gone.

    Example: onward audit refunds-2026-11 --verify

    Parameters
    ----------
    run_id
        Id of the run.
    tag
        Audit all runs with this tag, as in --tag order=1042; given more than once, with all.
    verify
        Compare the ledger with the event history, record by record.
    all_calls
        Show the calls that only read, too.
    as_json
        Print one JSON document.

    """
    from onward import audit as auditing  # noqa: PLC0415

    return perform(
        lambda out: auditing.audit(run_id, out, tags=tag, verify=verify, reads=all_calls),
        as_json=as_json,
    )


def restored(
    *, yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False, as_json: AsJson = False
) -> int:
    """Tell Onward that Redis was restored from a backup, so that no old record is trusted.

    A backup looks like the server that it was made of, but lacks what was recorded since. Say this
    after restoring and before the workers start again: calls that were under way end in doubt, or
    are asked about, instead of being done twice.

    Example: onward restored --yes

    Parameters
    ----------
    yes
        Do not ask.
    as_json
        Print one JSON document.

    """
    from onward import restored as restoring  # noqa: PLC0415

    return perform(lambda out: restoring.restored(out, yes=yes), as_json=as_json)
