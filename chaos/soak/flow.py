"""The steady flow: a run starts every few seconds, and is followed to the end that is meant for it.

People's part is played here too: they approve, deny, cancel and terminate.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from chaos.audit import Span
from chaos.evidence import evidence
from chaos.soak.stage import Stage
from chaos.soak.work import Kind, Work, work
from chaos.traffic import Run
from onward.client import RunHandle
from onward.errors import OnwardError
from onward.messages import RunResult
from onward.runs import Pending
from onward.runs import Run as Described

BY = "soak"
_LOOK_S = 0.5
_PATIENCE_S = 90.0
"""How long a run may take to come to where a person is asked, and to its end."""

Part = Callable[[RunHandle, WorkflowHandle[Any, RunResult]], Awaitable[object]]


@dataclass(frozen=True)
class Ended:
    """How long a history was in the end; of a chain, its last part."""

    at_s: float
    """Since the flow began."""
    kind: Kind
    events: int


class Flow:
    """Starts runs and plays the people; `runs` holds all of them."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._began_s = stage, time.monotonic()
        self._following = set[asyncio.Task[None]]()
        self._parts: dict[Kind, Part] = {
            "approved": self._approve,
            "denied": self._deny,
            "cancelled": self._cancel,
            "terminated": self._terminate_waiting,
            "cut off": self._terminate_at_work,
        }
        self.runs = list[Run]()
        self.ended = list[Ended]()
        self.spans = dict[str, Span]()
        """Of the orders in doubt, see `chaos.evidence`."""

    @property
    def open(self) -> int:
        """How many runs have not ended yet."""
        return len(self._following)

    async def go_on(self, *, minutes: float, per_minute: float) -> None:
        """Start runs, evenly spread; returns when the last one has ended."""
        self._began_s = time.monotonic()
        for number in range(round(minutes * per_minute)):
            await asyncio.sleep(self._began_s + number * 60 / per_minute - time.monotonic())
            following = asyncio.create_task(self._one(work(number)))
            self._following.add(following)
            following.add_done_callback(self._following.discard)
        await asyncio.gather(*self._following)

    async def _one(self, doing: Work) -> None:
        run = Run(doing)
        self.runs.append(run)
        self._stage.api.scripts[doing.name] = doing.reply
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._follow(run, doing)
        except (TimeoutError, OnwardError, RPCError) as error:
            run.trouble = f"{type(error).__name__}: {error}"
        del self._stage.api.scripts[doing.name]

    async def _follow(self, run: Run, doing: Work) -> None:
        started = await self._stage.client.start(
            f"[script:{doing.name}]", agent="soak", run_id=doing.name
        )
        temporal = self._stage.temporal.get_workflow_handle(started.id, result_type=RunResult)
        if doing.kind in self._parts:
            await self._parts[doing.kind](started, temporal)
        # A run that was terminated has no result.
        with suppress(WorkflowFailureError):
            run.result = await temporal.result()
        described = await temporal.describe()
        at_s = time.monotonic() - self._began_s
        self.ended.append(Ended(at_s, doing.kind, described.history_length))
        # Now: soon Temporal knows nothing of the run any more.
        self.spans.update((await evidence(self._stage.temporal, [run], {}, [])).spans)

    async def _approve(self, run: RunHandle, _: WorkflowHandle[Any, RunResult]) -> None:
        await _waits(run)
        await _said(lambda: run.approve("2.1", by=BY))

    async def _deny(self, run: RunHandle, _: WorkflowHandle[Any, RunResult]) -> None:
        await _waits(run)
        await _said(lambda: run.deny("2.1", "not this one", by=BY))

    async def _cancel(self, run: RunHandle, _: WorkflowHandle[Any, RunResult]) -> None:
        await _waits(run)
        await run.cancel("not wanted any more", by=BY)

    async def _terminate_waiting(
        self, run: RunHandle, temporal: WorkflowHandle[Any, RunResult]
    ) -> None:
        await _waits(run)
        await temporal.terminate("by the soak")

    async def _terminate_at_work(
        self, run: RunHandle, temporal: WorkflowHandle[Any, RunResult]
    ) -> None:
        await _comes(run, lambda seen: any(each.running for each in _calls(seen)))
        await temporal.terminate("by the soak")


def _calls(seen: Described) -> list[Pending]:
    return [each for each in seen.pending if each.name == "refund_once"]


async def _waits(run: RunHandle) -> None:
    await _comes(run, lambda seen: seen.waits_for == "approval")


async def _comes(run: RunHandle, there: Callable[[Described], bool]) -> None:
    while not there(await run.describe()):  # noqa: ASYNC110  (Temporal tells nobody)
        await asyncio.sleep(_LOOK_S)


async def _said(say: Callable[[], Awaitable[object]]) -> None:
    """Say it again while nobody hears it: the worker that should may just have been killed."""
    while True:
        try:
            await say()
        except OnwardError:
            await asyncio.sleep(_LOOK_S)
        else:
            return
