"""Whole runs in worker processes that are killed: the bench, with real processes."""

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from pathlib import Path

from agent_runs import Bench, Run

from onward.testing import PaymentsProcess
from onward.testing.warm import WarmWorker


class CrashBench:
    """A bench whose workers are processes with the tools of `crash_app.py`."""

    def __init__(
        self, bench: Bench, address: str, redis_url: str, payments: PaymentsProcess, logs: Path
    ) -> None:
        self.bench, self.payments, self._logs = bench, payments, logs
        self._env = {
            "TEMPORAL_ADDRESS": address,
            "ONWARD_REDIS_URL": redis_url,
            "ONWARD_TASK_QUEUE": bench.queue,
            "ONWARD_APP": "crash_app:app",
            "ANTHROPIC_BASE_URL": bench.api.url,
            "ANTHROPIC_API_KEY": "test",
            "PAYMENTS_URL": payments.url,
        }

    @asynccontextmanager
    async def worker(self, **env: str) -> AsyncGenerator[WarmWorker]:
        """Run a worker process; `env` is added to its environment."""
        log = self._logs / f"worker-{uuid.uuid4().hex[:8]}.log"
        worker = await WarmWorker.start(self._env | env, log=log, cwd=Path(__file__).parent)
        try:
            await worker.ready()
            yield worker
        finally:
            await worker.stop()

    def another(self) -> "CrashBench":
        """A bench beside this one, with a task queue of its own."""
        other = copy(self)
        other.bench, other._env = copy(self.bench), dict(self._env)  # noqa: SLF001
        other.new_queue()
        return other

    def new_queue(self) -> None:
        """Give later workers and runs a task queue that no earlier worker polled."""
        self.bench.queue = self._env["ONWARD_TASK_QUEUE"] = f"test-{uuid.uuid4().hex[:12]}"

    @asynccontextmanager
    async def pair(self) -> AsyncGenerator["Pair"]:
        """Run two workers; whichever is killed is replaced."""
        async with AsyncExitStack() as stack:
            yield Pair(self, stack, [await stack.enter_async_context(self.worker()) for _ in "ab"])

    def arrivals(self, order: str) -> int:
        """Requests for an order that reached the service, whole."""
        wanted = f'"order": "{order}"'
        arrived = self.payments.requests()
        return sum(wanted in seen.body and seen.state == "whole" for seen in arrived)

    def effects(self, order: str) -> int:
        """Refunds of an order that were made."""
        return sum(effect.order == order for effect in self.payments.effects())


class Pair:
    """Two workers on one task queue."""

    def __init__(self, bench: CrashBench, stack: AsyncExitStack, workers: list[WarmWorker]) -> None:
        self._bench, self._stack, self._workers = bench, stack, workers
        self._struck: list[Run] = []

    async def kill_the_one_at_work(self, run: Run) -> float:
        """SIGKILL the worker that has the run's open activity; returns when, Unix seconds."""
        (pending,) = (await run.handle.describe()).raw_description.pending_activities
        at_work = int(pending.last_worker_identity.split("@")[0])
        (victim,) = (worker for worker in self._workers if worker.pid == at_work)
        killed = time.time()
        await victim.kill()
        self._workers.remove(victim)
        self._struck.append(run)
        return killed

    async def all_ended(self) -> None:
        """Wait until every run whose worker was killed has completed."""
        for run in self._struck:
            assert (await run.ended()).outcome == "completed"

    async def refill(self) -> None:
        """Start a worker in place of the one that was killed."""
        self._workers.append(await self._stack.enter_async_context(self._bench.worker()))
