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

    Example: onward demo --kills 5

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


def crashtest(
    tool: Annotated[str, Parameter(name="TOOL")],
    /,
    *,
    given: Annotated[str, Parameter(name="--input")] = "{}",
    probe: str,
    points: str = "",
    as_json: AsJson = False,
) -> int:
    """Test whether a tool of yours keeps what its effect class promises, whenever its worker dies.

    Runs it in real workers, in this folder and environment, against embedded servers (one to four
    minutes): kills it at each of the twelve points of a call, pauses it past its lease, breaks its
    connections. Exit code 0: the promise held; 1: it was broken, and the report says what to do.

    Example: onward crashtest refunds:refund --input '{"order_id": "{unique}"}'
    --probe refunds:count_refunds

    Parameters
    ----------
    tool
        Where the tool is: module:name.
    given
        What Claude asks with, a JSON object. {unique} in it becomes another word in every trial;
        put it where the other side tells one job from another.
    probe
        Counts the effects of one trial's input: module:function, called with that input; or a URL
        that answers a number; or a shell command that prints one. {unique} in the latter two is
        the trial's word.
    points
        Only at these, as in f1,f6 (default: all twelve). f1 to f3 are around the claim, f4 to f7
        around the tool's request, f8 to f10 around the record of its result, f11 and f12 around
        the return. docs/testing-your-tools.md names each.
    as_json
        Print one JSON document.

    """
    from onward.testing.crash_test.command import crashtest as run_crashtest  # noqa: PLC0415

    return perform(lambda out: run_crashtest(tool, given, probe, points, out), as_json=as_json)
