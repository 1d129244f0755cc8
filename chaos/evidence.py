"""Gathers what the audit looks at, once all runs have ended."""

from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

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
            seen = Spans(temporal)
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
    """Reads from a history when each call got its witness and when it was recorded."""

    def __init__(self, temporal: Client) -> None:
        self._converter = temporal.data_converter
        self._replied = 0.0
        self._names = dict[int, str]()
        self.of = dict[str, Span]()
        """By call: from the reply that asks for it to the end of its last activity."""

    async def hear(self, event: HistoryEvent) -> None:
        """Take the next event."""
        at = event.event_time.ToMicroseconds() / 1e6
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled = event.activity_task_scheduled_event_attributes
            self._names[event.event_id] = await self._named(scheduled)
        elif event.HasField("activity_task_completed_event_attributes"):
            done = event.activity_task_completed_event_attributes
            self._ended(self._names[done.scheduled_event_id], at)
        elif event.HasField("activity_task_failed_event_attributes"):
            failed = event.activity_task_failed_event_attributes
            self._ended(self._names[failed.scheduled_event_id], at)

    async def _named(self, scheduled: Any) -> str:
        """Name an activity: a tool's by its call."""
        name: str = scheduled.activity_type.name
        if name in RESERVED_ACTIVITIES:
            return name
        (given,) = await self._converter.decode(scheduled.input.payloads, [ToolInput])
        return str(given.call)

    def _ended(self, name: str, at: float) -> None:
        if name == CALL_CLAUDE:
            self._replied = at
        elif name not in RESERVED_ACTIVITIES:
            self.of[name] = (self._replied, at)
