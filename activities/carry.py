"""Make a segment of what a workflow run adds to its chain, for the one that continues it.

No byte of the conversation passes through the workflow: it gets a reference, and hands it on.
"""

import asyncio
from datetime import timedelta

from temporalio import activity

from onward import segments
from onward.messages import CarryInput, Segment
from onward.names import CARRY
from onward.own_history import read_added

from .failures import translated
from .pulse import Pulse
from .services import Services


class CarryActivity:
    """The activity `carry`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=CARRY)
    async def carry(self, given: CarryInput) -> Segment:
        """Keep what the workflow run's own history tells beyond the segments it began from."""
        beat = activity.info().heartbeat_timeout or timedelta(seconds=self._services.takeover_s)
        async with Pulse(beat.total_seconds()):
            with translated():
                return await self._carry(given)

    async def _carry(self, given: CarryInput) -> Segment:
        run_id = activity.info().workflow_run_id or given.run.run_id
        temporal = self._services.temporal
        added = await read_added(temporal, given.run.workflow_id, run_id)
        packed = await asyncio.to_thread(added.pack)
        reference = await segments.keep(temporal.data_converter, packed)
        return Segment(reference=reference, records=len(added.ends), size_bytes=len(packed))
