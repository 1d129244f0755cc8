"""Commands that try things out: the demo, a crash test of one's own tool."""

from typing import Annotated

from cyclopts import Parameter

from onward.cli.parameters import AsJson, perform


def demo(
    *,
    kills: Annotated[int, Parameter(allow_leading_hyphen=True)] = 3,
    seed: Annotated[int, Parameter(allow_leading_hyphen=True)] = 0,
    unprotected: bool = False,
    interactive: Annotated[bool | None, Parameter(negative="--no-interactive")] = None,
    as_json: AsJson = False,
) -> int:
    """See it work, with no key and no servers: an agent whose worker is killed again and again.

    Example: python starter.py demo --kills 5

    Parameters
    ----------
    kills
        How often the worker is killed with SIGKILL.
    seed
        Decides amounts, ids and where the kills strike.
    unprotected
        Do the same as a plain loop, without Onward, to see what goes wrong then.
    interactive
        Wait for Enter at the end, so that the UI can be opened (default: on a terminal).
    as_json
        Print one JSON document.

    """
    from onward.demo import DemoOptions, run_demo  # noqa: PLC0415

    options = DemoOptions(
        json=as_json, kills=kills, seed=seed, unprotected=unprotected, interactive=interactive
    )
    return perform(lambda _: run_demo(options), as_json=as_json)
