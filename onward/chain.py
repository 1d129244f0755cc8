"""The workflow runs that one run is made of, where it continued as new.

The newest tells the whole run. Those before it are read only for what segments do not hold: when
something happened, and who said it.
"""

from dataclasses import dataclass

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from onward import history
from onward.history import RunKey
from onward.messages import RunRequest


@dataclass(frozen=True)
class Chain:
    """The workflow runs before the newest, oldest first."""

    earlier: tuple[RunKey, ...] = ()
    forgotten: str = ""
    """Run id of the one before those, which Temporal no longer keeps; empty: they are all."""


async def chain_before(client: Client, newest: RunKey) -> Chain:
    """List the workflow runs that led to this one. Raises `RPCError`."""
    earlier, at = list[RunKey](), newest
    while True:
        started = await history.start_of(client, at)
        if started is None or not started.continued_execution_run_id:
            return Chain(tuple(earlier[::-1]))
        at = RunKey(newest.id, started.continued_execution_run_id)
        if not await keeps(client, at):
            return Chain(tuple(earlier[::-1]), at.run_id)
        earlier.append(at)


async def keeps(client: Client, key: RunKey) -> bool:
    """Say whether Temporal still has the workflow run's history. Raises `RPCError`."""
    try:
        return await history.start_of(client, key) is not None
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise


async def first_request(client: Client, first: RunKey) -> RunRequest | None:
    """Read what the run was asked for when it began; None where Temporal keeps that no longer.

    Raises `RPCError`.
    """
    return await history.request_of(client, first) if await keeps(client, first) else None
