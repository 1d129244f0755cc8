"""Rebuild a run's records in Redis from its own history: history is enough, and outranks Redis.

No byte of the conversation passes through an activity's input: the history is read here, with the
worker's own client, and only a count goes back.
"""

import asyncio
from datetime import timedelta

from temporalio import activity
from temporalio.service import RPCError

from onward.errors import HistoryGap
from onward.messages import Head, Refilled, RefillInput
from onward.names import REFILL
from onward.own_history import Told, read_history

from .failures import again, translated
from .pulse import Pulse
from .services import Services, reset_lineage


class RefillActivity:
    """The activity `refill`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=REFILL)
    async def refill(self, given: RefillInput) -> Refilled:
        """Restore every ended step and call of the run, then take a new witness.

        It is tried again until the conversation is whole, so that the step it is for can go on:
        what is missing may be brought back, and until then the run stays open.
        """
        # Of the run, not of this worker: a deploy may have changed the setting.
        beat = activity.info().heartbeat_timeout or timedelta(seconds=self._services.takeover_s)
        async with Pulse(beat.total_seconds()):
            with translated():
                return await self._refill(given)

    async def _refill(self, given: RefillInput) -> Refilled:
        ledger = self._services.ledger(given.run)
        told = await self._told(given)
        if given.head:
            await asyncio.to_thread(_check, told, given.head)
        await ledger.restore(told.records, told.turns)
        witness = await ledger.begin(given.witness, reset_lineage=reset_lineage(given.run))
        return Refilled(records=len(told.records), witness=witness)

    async def _told(self, given: RefillInput) -> Told:
        run_id = activity.info().workflow_run_id or given.run.run_id
        try:
            return await read_history(
                self._services.temporal, given.run.workflow_id, run_id, stores=True
            )
        except RPCError as error:
            raise again("history", f"cannot read the run's own history: {error}") from None


def _check(told: Told, head: Head) -> None:
    try:
        told.rebuilt.conversation(head)
    except HistoryGap as gap:
        raise again("history_gap", f"{gap}; or cancel the run, which waits until then") from None
