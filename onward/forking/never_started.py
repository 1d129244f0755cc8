"""Calls that nothing ever ran: the history of a run that is over proves it, without Redis."""

from dataclasses import replace

from temporalio.client import Client

from onward.audit.timeline import Timeline
from onward.chain import chain_before
from onward.forking.cut import Cut
from onward.history import RunKey


async def with_proof(client: Client, run: RunKey, cut_off: Cut) -> Cut:
    """Add to the cut what the newest workflow run of a run proves, and those before it.

    Raises `RPCError`.
    """
    # Read only where it can matter: a long run's chain is many histories.
    if not any(cut_off.open_effects()):
        return cut_off
    return replace(cut_off, never_started=await _never_started(client, run))


async def _never_started(client: Client, run: RunKey) -> frozenset[str]:
    """Find calls for which no activity was scheduled in any workflow run of the chain."""
    chain, timeline = await chain_before(client, run), Timeline(client)
    for key in (*chain.earlier, run):
        handle = client.get_workflow_handle(key.id, run_id=key.run_id)
        async for event in handle.fetch_history_events():
            await timeline.hear(event)
    # A reset hides what another branch scheduled; and only a run that is over schedules no more.
    unclear = chain.forgotten or timeline.lost or timeline.was_reset
    if unclear or not timeline.closed:
        return frozenset()
    return frozenset(name for name, call in timeline.calls.items() if call.scheduled is None)
