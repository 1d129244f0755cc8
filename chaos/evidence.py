"""Gathers what the audit looks at, once all runs have ended."""

from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.converter import DataConverter

from chaos.app import transactions
from chaos.audit import Evidence, Span
from chaos.nemesis import Struck
from chaos.traffic import Run
from onward.messages import ToolInput
from onward.names import CALL_CLAUDE, RESERVED_ACTIVITIES
from onward.testing import PaymentsProcess


async def evidence(
    temporal: Client, runs: list[Run], refunds: dict[str, list[str]], struck: list[Struck]
) -> Evidence:
    """Read the spans of the calls in doubt, and put all together."""
    spans = dict[str, Span]()
    for run in runs:
        if run.result is not None and run.result.in_doubt:
            seen = Spans(temporal.data_converter)
            handle = temporal.get_workflow_handle(run.conversation.name)
            async for event in handle.fetch_history_events():
                await seen.hear(event)
            spans |= {f"{run.conversation.name}-{call}": seen.of[call] for call in seen.of}
    return Evidence(runs, refunds, spans, struck)


def refunds_made(payments: PaymentsProcess, transactions_db: Path) -> dict[str, list[str]]:
    """Read the books of both other sides: by order, the ids of its refunds."""
    made = defaultdict[str, list[str]](list)
    for effect in payments.effects():
        made[effect.order].append(f"re_{effect.n}")
    with closing(transactions(transactions_db)) as db:
        for number, order in db.execute("SELECT n, order_id FROM refunds ORDER BY n"):
            made[order].append(f"tx_{number}")
    return made


class Spans:
    """Reads from a history between which moments each call got its witness and was recorded.

    The witness is taken in the ledger, by the attempt at `call_claude` that has the reply. It may
    be a long time until Temporal hears of that, so the span begins where that attempt does.
    """

    def __init__(self, converter: DataConverter) -> None:
        self._converter = converter
        self._names, self._started = dict[int, str](), dict[int, float]()
        self._witnessed = 0.0
        self.of = dict[str, Span]()
        """By call."""

    async def hear(self, event: HistoryEvent) -> None:
        """Take the next event."""
        at = event.event_time.ToMicroseconds() / 1e6
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled = event.activity_task_scheduled_event_attributes
            self._names[event.event_id] = await self._named(scheduled)
        elif event.HasField("activity_task_started_event_attributes"):
            started = event.activity_task_started_event_attributes
            self._started[started.scheduled_event_id] = at
        elif event.HasField("activity_task_completed_event_attributes"):
            self._ended(event.activity_task_completed_event_attributes.scheduled_event_id, at)
        elif event.HasField("activity_task_failed_event_attributes"):
            self._ended(event.activity_task_failed_event_attributes.scheduled_event_id, at)

    async def _named(self, scheduled: Any) -> str:
        """Name an activity: a tool's by its call."""
        name: str = scheduled.activity_type.name
        if name in RESERVED_ACTIVITIES:
            return name
        (given,) = await self._converter.decode(scheduled.input.payloads, [ToolInput])
        return str(given.call)

    def _ended(self, scheduled: int, at: float) -> None:
        name = self._names[scheduled]
        if name == CALL_CLAUDE:
            self._witnessed = self._started[scheduled]
        elif name not in RESERVED_ACTIVITIES:
            self.of[name] = (self._witnessed, at)
