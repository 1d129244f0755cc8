"""Commands about a run's conversation: show it, go on from a copy of it."""

from typing import Annotated, Literal

from cyclopts import Parameter

from onward.cli.parameters import AsJson, RunId, perform


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

    Example: python starter.py transcript refunds-2026-11 --format html > refunds.html

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
    from onward import retelling  # noqa: PLC0415

    shown = "json" if as_json else form
    return perform(
        lambda out: retelling.transcript(run_id, out, form=shown, whole=whole), as_json=as_json
    )
