"""The contenders: how each is started, given work, and asked how it went.

A contender on Temporal is a worker, one process for all its runs; the bare client is a process for
each run. Only a run's own time counts, never the start of a process.
"""

import asyncio
import json
import math
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from temporalio.client import WorkflowFailureError, WorkflowHandle

from benchmarks import onward_app
from benchmarks.bed import Bed, Seen, say
from benchmarks.chain import ChainBytes, chain_bytes
from benchmarks.work import Work
from onward.errors import UsageError
from onward.messages import RunRequest
from onward.names import WORKFLOW
from onward.testing.processes import ManagedProcess, WorkerProcess, clean_env

_READY_S = 120.0
STALL_S = 120.0
"""Without a new step for so long, a run is taken to be stuck, and is terminated."""


@dataclass(frozen=True)
class Ran:
    """How one run went."""

    seen: Seen
    seconds: float
    """From its start to its result."""
    died: str = ""
    """Why it has no result; empty: it has one."""
    sizes: ChainBytes | None = None
    """Of its histories; None: it has none, or nobody asked."""


class Team(Protocol):
    """A contender that is ready to work."""

    @property
    def pid(self) -> int | None:
        """Of the worker that does all the work; None: each run is a process."""
        ...

    async def run(self, work: Work, *, sizes: bool = True) -> Ran:
        """Do the work to its end, good or bad; `sizes`: read the histories afterwards."""
        ...


class Contender(Protocol):
    """One way to run an agent."""

    @property
    def name(self) -> str:
        """Its key in figures."""
        ...

    @property
    def title(self) -> str:
        """Its name for people."""
        ...

    def ready(self, bed: Bed) -> AbstractAsyncContextManager[Team]:
        """Start what it needs besides the servers, until the block ends."""
        ...


# ---- the bare client


class BareClient:
    """A loop around the `anthropic` client."""

    name, title = "bare_client", "bare client"

    @asynccontextmanager
    async def ready(self, bed: Bed) -> AsyncGenerator[Team]:
        """Nothing to start."""
        yield _BareTeam(bed)


class _BareTeam:
    pid = None

    def __init__(self, bed: Bed) -> None:
        self._bed = bed

    async def run(self, work: Work, *, sizes: bool = True) -> Ran:
        del sizes  # it writes no history
        prompts = (Work(f"{work.name}-warm", 2).prompt, work.prompt)
        process = await _python(self._bed, "benchmarks.bare_loop", *prompts, name=work.name)
        try:
            status = await process.wait(math.inf)
        finally:
            await process.stop()
        seen = await self._bed.seen(work.name)
        if status != 0:
            return Ran(seen, seconds=math.nan, died=process.tail())
        return Ran(seen, seconds=json.loads(process.output().splitlines()[-1])["seconds"])


# ---- on Temporal


@dataclass(frozen=True)
class OnTemporal:
    """A workflow type, what it is given, and the worker that runs it."""

    name: str
    title: str
    workflow: str
    given: Callable[[Work], Any]
    worker: Callable[[Bed, str], Any]
    """Starts a worker on a task queue; a coroutine function that returns a ManagedProcess."""
    needs: str = ""
    """A package that must be installed."""

    @asynccontextmanager
    async def ready(self, bed: Bed) -> AsyncGenerator[Team]:
        """Run a worker. Raises UsageError where its package is missing, ProcessFailed."""
        if self.needs and find_spec(self.needs) is None:
            raise UsageError(
                f"{self.title} needs the package {self.needs!r}, which is not installed. Run "
                f"`make peers`, or leave it out: --without {self.name}"
            )
        queue = f"{self.name}-{uuid.uuid4().hex[:8]}"
        process: ManagedProcess = await self.worker(bed, queue)
        try:
            await process.logged("polling", _READY_S)
            yield _TemporalTeam(bed, self, queue, process)
        finally:
            await process.stop()


class _TemporalTeam:
    def __init__(
        self, bed: Bed, contender: OnTemporal, queue: str, process: ManagedProcess
    ) -> None:
        self._bed, self._contender, self._queue = bed, contender, queue
        self._process = process

    @property
    def pid(self) -> int:
        """Of the worker."""
        return self._process.pid

    async def run(self, work: Work, *, sizes: bool = True) -> Ran:
        client, began = self._bed.client, time.perf_counter()
        handle: WorkflowHandle[Any, Any] = await client.start_workflow(
            self._contender.workflow,
            self._contender.given(work),
            id=work.name,
            task_queue=self._queue,
        )
        died = await self._end(handle, work)
        seconds = time.perf_counter() - began
        found = None
        if sizes:
            found = await chain_bytes(client, work.name, handle.first_execution_run_id or "")
        return Ran(await self._bed.seen(work.name), seconds, died, found)

    async def _end(self, handle: WorkflowHandle[Any, Any], work: Work) -> str:
        """Wait for the run's end; returns why it has no result."""
        ending, steps = asyncio.ensure_future(handle.result()), -1
        while not (await asyncio.wait([ending], timeout=STALL_S))[0]:
            before, steps = steps, (await self._bed.seen(work.name)).steps
            if steps == before:
                say(f"{work.name} is stuck at step {steps}. Its worker: {self._process.tail()}")
                await handle.terminate(reason=f"stuck at step {steps}")
        try:
            await ending
        except WorkflowFailureError as error:
            return str(error.cause)
        return ""


async def _python(bed: Bed, module: str, *args: str, name: str) -> ManagedProcess:
    return await ManagedProcess.spawn(
        [sys.executable, "-m", module, *args],
        log=bed.folder / f"{name}.log",
        env=clean_env(bed.environment),
    )


async def _usual_worker(bed: Bed, queue: str) -> ManagedProcess:
    return await _python(bed, "benchmarks.usual_pattern", queue, name=queue)


async def _pydantic_ai_worker(bed: Bed, queue: str) -> ManagedProcess:
    return await _python(bed, "benchmarks.pydantic_ai_agent", queue, name=queue)


async def _onward_worker(bed: Bed, queue: str) -> ManagedProcess:
    settings = {"ONWARD_APP": "benchmarks.onward_app:app", "ONWARD_TASK_QUEUE": queue}
    log = bed.folder / f"{queue}.log"
    return await WorkerProcess.start(bed.environment | settings, log=log)


def _prompt(work: Work) -> str:
    return work.prompt


def _request(work: Work) -> RunRequest:
    return RunRequest(prompt=work.prompt, agent=onward_app.AGENT, deployment="benchmark")


BARE = BareClient()
USUAL = OnTemporal("usual_pattern", "usual pattern", "usual_pattern", _prompt, _usual_worker)
PYDANTIC_AI = OnTemporal(
    "pydantic_ai", "pydantic-ai", "pydantic_ai", _prompt, _pydantic_ai_worker, needs="pydantic_ai"
)
ONWARD = OnTemporal("onward", "Onward", WORKFLOW, _request, _onward_worker)
EVERY: tuple[Contender, ...] = (BARE, USUAL, PYDANTIC_AI, ONWARD)
