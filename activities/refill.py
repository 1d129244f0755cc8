"""Rebuild a run's records in Redis from its own history: history is enough, and outranks Redis.

No byte of the conversation passes through an activity's input: the history is read here, with the
worker's own client, and only a count goes back.
"""

from datetime import timedelta

from temporalio import activity

from activities.failures import translated
from activities.pulse import Pulse
from activities.services import Services, reset_lineage
from onward.messages import Refilled, RefillInput
from onward.names import REFILL
from onward.own_history import read_history


class RefillActivity:
    """The activity `refill`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=REFILL)
    async def refill(self, given: RefillInput) -> Refilled:
        """Restore every ended step and call of the run, then take a new witness."""
        # Of the run, not of this worker: a deploy may have changed the setting.
        beat = activity.info().heartbeat_timeout or timedelta(seconds=self._services.takeover_s)
        async with Pulse(beat.total_seconds()):
            with translated():
                return await self._refill(given)

    async def _refill(self, given: RefillInput) -> Refilled:
        run_id = activity.info().workflow_run_id or given.run.run_id
        ledger = self._services.ledger(given.run)
        told = await read_history(
            self._services.temporal, given.run.workflow_id, run_id, stores=True
        )
        if told.unlike:
            activity.logger.warning("turns that cannot be rebuilt alike: %s", told.unlike)
        await ledger.restore(told.records, told.turns)
        witness = await ledger.begin(given.witness, reset_lineage=reset_lineage(given.run))
        return Refilled(records=len(told.records), witness=witness)
