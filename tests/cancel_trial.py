"""Cells of the cancel matrix: bring a run to its point, cancel it there, and look how it ended."""

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from agent_runs import Bench, Run, says, uses
from cancel_points import DEADLINE_S, MODELS, Ends, Point, Stage, Told
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from onward import history
from onward.history import RunKey
from onward.messages import Fork, RunRequest, RunResult
from onward.names import WORKFLOW
from onward.rates import pool
from onward.testing import PaymentsProcess, WorkerProcess, wait_until
from onward.testing.messages_api import Entry, Script

Way = Literal["signal", "server"]
WAYS: tuple[Way, ...] = ("signal", "server")
_STATUS = {
    "signal": WorkflowExecutionStatus.COMPLETED,
    "server": WorkflowExecutionStatus.CANCELED,
}
_TEXTS: dict[Told, str] = {
    "done": "re_",
    "in_doubt": "OUTCOME UNKNOWN",
    "not_run": "Not run",
    "read": "only reads",
}
_RECORDED: dict[Told, str] = {"done": "done", "in_doubt": "doubt"}


@dataclass
class Cell:
    """A run that is cancelled in one way at one point."""

    point: Point
    way: Way
    killed: bool
    stage: Stage
    took_s: float = 0.0
    """From the cancel to the run's end."""
    dropped_s: float = 0.0
    """From the cancel to the end of the request to Claude, where one was open."""
    cancelled_s: float = 0.0
    """When the cancel was sent, Unix seconds."""
    result: RunResult | None = None

    def __str__(self) -> str:
        return f"{self.point}, by {self.way}, {'killed' if self.killed else 'alive'}"

    @property
    def run(self) -> Run:
        """The run."""
        return self.stage.run

    @property
    def ends(self) -> Ends:
        """How it must end."""
        return self.point.killed if self.killed else self.point.alive

    async def cancel(self) -> None:
        """Send the cancel."""
        self.cancelled_s = self.cancelled_s or time.time()
        if self.way == "signal":
            await self.run.handle.signal("cancel", {"reason": "enough"})
        else:
            await self.run.handle.cancel()

    async def cancel_again(self) -> None:
        """Send the same again, to a run that may have ended meanwhile."""
        with suppress(RPCError):
            await self.cancel()

    async def end(self) -> None:
        """Wait for the run's end, and take its result."""
        self.result = await end_of(self.run)
        self.took_s = time.time() - self.cancelled_s
        last = self.run.requests[-1]
        await wait_until(lambda: last.t_end, DEADLINE_S, what=f"the last request's end of {self}")
        self.dropped_s = max((last.t_end or 0) - self.cancelled_s, 0)


async def begin(
    bench: Bench,
    point: Point,
    way: Way,
    worker: WorkerProcess,
    payments: PaymentsProcess,
    *,
    killed: bool,
) -> Cell:
    """Start a run and bring it to its point."""
    order = f"order-{uuid.uuid4().hex[:12]}"
    first = uses(("hold", {"where": point.held}))
    steps = [*[first] * point.first_steps, point.step(order, killed), says()]
    model = next(MODELS) if point.own_model else None
    run = await bench.start(*steps, model=model, max_cost_usd=None)
    stage = Stage(run, worker, payments, order)
    await point.reached(stage)
    return Cell(point, way, killed, stage)


# ---- looking at the end


async def problems(cell: Cell) -> list[str]:
    """Say what is not as it must be, once a worker is there that can run a fork."""
    result, ends = cell.result, cell.ends
    assert result is not None, "the run has ended"
    status = (await _newest(cell.run).describe()).status
    in_doubt = (f"{result.steps}.1",) if ends.told == "in_doubt" else ()
    requests, effects = cell.run.requests, cell.stage.effects()
    recorded = await _recorded(cell)
    checks = {
        f"outcome {result.outcome}": result.outcome == "cancelled",
        f"status {status}": status == _STATUS[cell.way],
        f"reason {result.detail!r}": cell.way == "server" or "enough" in result.detail,
        f"in doubt {result.in_doubt}, not {in_doubt}": result.in_doubt == in_doubt,
        f"{result.spend.requests} requests of {len(requests)} counted": (
            result.spend.requests == len(requests)
        ),
        f"tokens of the stream in {result.spend}": _counted(cell),
        f"{effects} effects, not {ends.effects}": effects in ends.effects,
        f"recorded as {recorded}": recorded == _RECORDED.get(ends.told, recorded),
    }
    wrong = [problem for problem, right in checks.items() if not right]
    return [f"{cell}: {problem}" for problem in [*wrong, *await _fork_problems(cell)]]


async def _recorded(cell: Cell) -> str:
    """Say what the ledger holds of the call; empty: nothing."""
    assert cell.result is not None, "the run has ended"
    call = f"{cell.result.steps}.1"
    record = (await cell.run.bench.ledger(cell.run).records(call)).records.get(call)
    return record.st if record else ""


def _counted(cell: Cell) -> bool:
    assert cell.result is not None, "the run has ended"
    spend, last = cell.result.spend, cell.run.requests[-1]
    begun = last.events_sent > 0 and not last.complete
    return not begun or spend.lost.input_tokens == last.usage["input_tokens"]


async def _fork_problems(cell: Cell) -> list[str]:
    """Go on from the end: Claude's side refuses any request whose transcript is not valid."""
    await _forget_rates(cell)
    sent, run = await go_on(cell.run), cell.run
    broken = [problem for entry in run.requests for problem in entry.violations]
    if broken or len(sent) != 1:
        return [f"the fork sent {len(sent)} requests, with {broken}"]
    told, wanted = _last_words(sent[0].body), _TEXTS.get(cell.ends.told, "")
    return [] if wanted in told and "Go on." in told else [f"the fork told {told}"]


async def _forget_rates(cell: Cell) -> None:
    """End the wait that a 429 asked for: the fork asks the same model."""
    if cell.point.own_model:
        redis: Any = cell.run.bench.redis
        model = json.loads(cell.run.requests[0].body)["model"]
        keys = [key async for key in redis.scan_iter(f"onward:{{rate:*}}:pool:{pool(model)}")]
        await redis.delete(*keys)


def _last_words(body: str) -> str:
    return json.dumps(json.loads(body)["messages"][-1]["content"])


# ---- any run


async def end_of(run: Run) -> RunResult:
    """Wait until a run has ended, however it was cancelled, and return its result."""

    async def over() -> bool:
        return (await _newest(run).describe()).status != WorkflowExecutionStatus.RUNNING

    await wait_until(over, DEADLINE_S, what=f"the end of {run.name}")
    newest = await _newest(run).describe()
    ended = await history.ended(run.bench.temporal, RunKey(run.name, newest.run_id))
    assert ended is not None, "it has ended"
    assert ended.spend_complete, "it has said how"
    return ended.result


async def go_on(run: Run) -> Sequence[Entry]:
    """Fork a run that has ended; returns what the fork asked Claude before it ended too."""
    asked = len(run.requests)
    run.bench.api.scripts[run.name] = Script(default=says())
    newest = await _newest(run).describe()
    first = run.handle.first_execution_run_id or ""
    parent = Fork(workflow_id=run.name, run_id=newest.run_id, first_run_id=first)
    handle: WorkflowHandle[Any, RunResult] = await run.bench.temporal.start_workflow(
        WORKFLOW,
        RunRequest(prompt="Go on.", agent="tester", fork=parent),
        id=f"fork-of-{run.name}",
        task_queue=run.bench.queue,
        result_type=RunResult,
    )
    assert (await asyncio.wait_for(handle.result(), DEADLINE_S)).outcome == "completed"
    return run.requests[asked:]


def _newest(run: Run) -> WorkflowHandle[Any, Any]:
    return run.bench.temporal.get_workflow_handle(run.name)
