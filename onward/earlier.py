"""What the workflow runs before this one recorded: the segments that it was started with."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from temporalio.converter import DataConverter

from onward import segments
from onward.records import Restored
from onward.run_records import Added, RunRecords


class Earlier:
    """Segments of a chain, each fetched when it is first needed."""

    def __init__(self, converter: DataConverter, references: Sequence[str] = ()) -> None:
        """Take the references, oldest first."""
        self._converter = converter
        self._unread = list(references)
        self._read = list[Added]()  # newest first

    async def ends(self, calls: Iterable[str]) -> dict[str, Restored]:
        """Return how calls ended; those of which no segment tells are left out.

        Reads no more segments than it must: what a step is told of its calls is in the newest. One
        that read all would cost a chain the square of its length. Raises `PayloadError`.
        """
        found = {call: await self._end(call) for call in calls}
        return {call: end for call, end in found.items() if end}

    async def whole(self) -> RunRecords:
        """Lay all segments over each other. Raises `PayloadError`."""
        whole = RunRecords()
        for segment in [each async for each in self._newest_first()][::-1]:
            whole.lay(segment)
        return whole

    async def _end(self, call: str) -> Restored | None:
        async for segment in self._newest_first():
            if call in segment.ends or call in segment.dropped:
                return segment.ends.get(call)
        return None

    async def _newest_first(self) -> AsyncIterator[Added]:
        for segment in self._read:
            yield segment
        while self._unread:
            packed = await segments.fetch(self._converter, self._unread[-1])
            self._read.append(await asyncio.to_thread(Added.unpack, packed))
            self._unread.pop()
            yield self._read[-1]
