"""A reply's calls that only read, run in the activity that got the reply.

So the most frequent kind of step is one activity and not two. Each call goes through the ledger as
in an activity of its own, and one that comes to no result here is left to that: nothing that a read
does, or suffers, may cost the reply.
"""

import asyncio
from collections.abc import Iterable

from temporalio import activity
from temporalio.exceptions import ApplicationError

from onward.failpoints import pass_return
from onward.messages import CallResult, ClaudeInput, ClaudeReply, PreparedCall

from .lease import Lease
from .pulse import Pulse
from .services import Services
from .tools import CallAttempt

_LONGEST_S = 300.0
"""A read that may take longer has an activity of its own, with a time limit that fits it."""
_AT_ONCE = 16
"""Of one reply: the worker's own bound on activities does not see these."""


async def with_results(
    services: Services, given: ClaudeInput, reply: ClaudeReply, pulse: Pulse
) -> ClaudeReply:
    """Run the reply's calls beside each other, if all of them only read, and add their results.

    A cancel ends them and is not handed on: the reply is returned with the results so far.
    """
    chosen = _chosen(reply) if given.reads else []
    calls = (reply.calls[index] for index in chosen)
    pulse.doing = ", ".join(f"{call.call} {call.tool}" for call in calls)
    free = asyncio.Semaphore(_AT_ONCE)
    reads = {i: asyncio.create_task(_read(services, given, reply, i, free)) for i in chosen}
    await _all_ended(reads.values())
    if reads:
        pass_return()
    results = [reads[i].result() if i in reads else None for i in range(len(reply.calls))]
    return reply.model_copy(update={"results": tuple(results)}) if any(results) else reply


def _chosen(reply: ClaudeReply) -> list[int]:
    """Indices of the calls to run here: all that are run at all, or none."""
    chosen = [index for index, call in enumerate(reply.calls) if call.refusal is None]
    # Beside an effect a read keeps its place in Claude's order, which the workflow sees to.
    return chosen if all(_only_reads(reply.calls[index]) for index in chosen) else []


def _only_reads(call: PreparedCall) -> bool:
    return call.effect == "read" and not call.ask and call.timeout_s <= _LONGEST_S


async def _read(
    services: Services,
    given: ClaudeInput,
    reply: ClaudeReply,
    index: int,
    free: asyncio.Semaphore,
) -> CallResult | None:
    call = reply.calls[index]
    told = reply.tool_input(index, given.run, given.agent, given.workspace, given.takeover_s)
    try:
        async with free, Lease(given.takeover_s) as lease:
            return await CallAttempt(services, call.tool, told, lease, reply=reply).result()
    except asyncio.CancelledError:
        return None
    except Exception as error:  # noqa: BLE001  (whatever it is, the call's own activity says it)
        if not isinstance(error, ApplicationError):
            activity.logger.warning("call %s was not read within its step: %r", call.call, error)
        return None


async def _all_ended(reads: Iterable[asyncio.Task[CallResult | None]]) -> None:
    while running := [read for read in reads if not read.done()]:
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            for read in running:
                read.cancel()
