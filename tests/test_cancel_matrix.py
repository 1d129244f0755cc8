"""Every point of a step x signal and server's cancel x worker alive and worker killed: a clean end.

`cancel_points.py` says what each point is and how a run that is cancelled there must end,
`cancel_trial.py` how that is looked at, `cancel_app.py` is the worker.
"""

import asyncio
import statistics
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import cancel_app
import pytest
from agent_runs import Bench
from cancel_app import Servers
from cancel_points import POINTS, Point
from cancel_trial import WAYS, Cell, begin, problems

from onward.local_services import TemporalServer
from onward.testing import PaymentsProcess
from onward.testing.warm import WarmWorker

pytestmark = [pytest.mark.cancel, pytest.mark.crash, pytest.mark.timeout(240)]
TAKEOVER_S = 3.0
AT_ONCE = 3
"""Points beside each other while times are taken."""


class Matrix:
    """The bench, with workers in which runs are held."""

    def __init__(
        self, bench: Bench, servers: Servers, payments: PaymentsProcess, folder: Path
    ) -> None:
        self.bench, self.payments = bench, payments
        self._servers, self._folder = servers, folder

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[WarmWorker]:
        """Run a worker of `cancel_app.py`."""
        worker = WarmWorker.fork(
            cancel_app.main,
            [self._servers, self.bench.queue, TAKEOVER_S],
            env={"PAYMENTS_URL": self.payments.url, "SSL_CERT_DIR": str(self._folder)},
            log=self._folder / "worker.log",
            cwd=Path(__file__).parent,
        )
        try:
            yield worker
        finally:
            await worker.kill()

    async def begin(self, point: Point, worker: WarmWorker, *, killed: bool) -> list[Cell]:
        """Bring a run for each way of cancelling to the point."""
        starts = (begin(self.bench, point, w, worker, self.payments, killed=killed) for w in WAYS)
        return await asyncio.gather(*starts)


@pytest.fixture
def matrix(
    bench: Bench,
    temporal: TemporalServer,
    redis_url: str,
    payments: PaymentsProcess,
    tmp_path: Path,
) -> Matrix:
    servers = Servers(temporal.address, redis_url, bench.api.url)
    return Matrix(bench, servers, payments, tmp_path)


@pytest.mark.field("C09")
async def test_a_cancel_at_any_point_ends_a_run_cleanly_and_soon(matrix: Matrix) -> None:
    """Outcome, status, spend, effects and transcript are right; Claude's stream ends in a second.

    A second cancel does no harm.
    """
    turn = asyncio.Semaphore(AT_ONCE)

    async def cancelled(point: Point, worker: WarmWorker) -> list[Cell]:
        async with turn:
            cells = await matrix.begin(point, worker, killed=False)
            await asyncio.gather(*(cell.cancel() for cell in cells))
            await asyncio.gather(*(cell.cancel_again() for cell in cells))
            await asyncio.gather(*(cell.end() for cell in cells))
            return cells

    async with matrix.worker() as worker:
        found = await asyncio.gather(*(cancelled(point, worker) for point in POINTS))
        cells = [cell for of_point in found for cell in of_point]
        assert await all_problems(cells) == []
    for point in POINTS:
        took = [cell.took_s for cell in cells if cell.point is point]
        assert statistics.median(took) < point.alive.within_s, f"{point}: {took}"
    dropped = [cell.dropped_s for cell in cells if cell.dropped_s]
    assert statistics.median(dropped) < 1, dropped


@pytest.mark.field("C12")
async def test_a_cancel_as_the_worker_dies_ends_a_run_cleanly(matrix: Matrix) -> None:
    """Another worker ends it as the first would have; what that one left unknown is in doubt."""
    async with matrix.worker() as worker:
        began = (matrix.begin(point, worker, killed=True) for point in POINTS)
        cells = [cell for of_point in await asyncio.gather(*began) for cell in of_point]
        await worker.kill()
        await asyncio.gather(*(cell.cancel() for cell in cells))
    async with matrix.worker():
        await asyncio.gather(*(cell.end() for cell in cells))
        assert await all_problems(cells) == []


async def all_problems(cells: list[Cell]) -> list[str]:
    """Say what is not as it must be in any of the cells."""
    found = await asyncio.gather(*map(problems, cells))
    return [problem for of_cell in found for problem in of_cell]
