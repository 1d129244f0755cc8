"""The workers: a fixed number of processes; whichever dies is replaced."""

import asyncio
import math
import signal
from collections.abc import Mapping
from pathlib import Path

from onward.testing.warm import WarmWorker

_CANNOT_CONNECT = 3
"""Exit status of a worker that was started while a server was away."""
_AGAIN_S = 0.3


class Crew:
    """Keeps workers running; each place has its number, from 1, and its log."""

    def __init__(self, env: Mapping[str, str], folder: Path, size: int) -> None:
        self._env, self._folder, self.size = dict(env), folder, size
        self._at = dict[int, WarmWorker]()
        self._keepers = list[asyncio.Task[None]]()
        self.surprises = list[str]()
        """Workers that ended otherwise than killed by us."""

    async def start(self) -> None:
        """Start all and wait until they poll. Raises ProcessFailed with the end of a log."""
        for place in range(1, self.size + 1):
            self._at[place] = await self._worker(place)
        await asyncio.gather(*(worker.ready() for worker in self._at.values()))
        self._keepers = [asyncio.create_task(self._keep(place)) for place in self._at]

    async def stop(self) -> None:
        """End all."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._at.values()))

    def pid(self, place: int) -> int:
        """Process id of whoever is there."""
        return self._at[place].pid

    def kill(self, place: int) -> None:
        """SIGKILL whoever is there."""
        self._at[place].signal(signal.SIGKILL)

    async def pause(self, place: int, seconds: float) -> None:
        """Let whoever is there stand still, and go on: past its lease, as a zombie."""
        worker = self._at[place]
        worker.pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            worker.resume()

    async def _keep(self, place: int) -> None:
        while True:
            status = await self._at[place].wait(math.inf)
            if status == _CANNOT_CONNECT:
                await asyncio.sleep(_AGAIN_S)
            elif status != -signal.SIGKILL:
                self.surprises.append(f"worker {place} ended by itself with {status}")
            self._at[place] = await self._worker(place)

    async def _worker(self, place: int) -> WarmWorker:
        return await WarmWorker.start(self._env, log=self._folder / f"worker-{place}.log")
