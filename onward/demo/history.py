"""The run's history, as anyone can read it from Temporal: attempts, identities, finished steps."""

import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from onward.names import CALL_CLAUDE

_CLOSED = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "activity_task_timed_out_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "activity_task_canceled_event_attributes",
}


@dataclass
class Activity:
    """One scheduled activity, with the attempt that closed it."""

    type: str
    step: str
    """Of Claude's request, or of the reply that asked for the call; empty for the others."""
    call: str
    """`12.1`; empty for what is no tool."""
    attempt: int = 0
    """0 until it is closed: Temporal writes the start into history only with the end."""
    identity: str = ""
    """Of the worker that ran that attempt, `pid@host`."""
    closed: bool = False


class RunHistory:
    """Reads a run's events one by one; remembers what the killer, the view and the audit need."""

    def __init__(self) -> None:
        self.activities: dict[int, Activity] = {}
        """By the id of the event that scheduled them."""
        self.saying = ""
        """What Claude said last."""
        self.cost_usd = Decimal(0)
        self._asked: dict[str, int] = {}
        self._answered: Counter[str] = Counter()

    def note(self, event: HistoryEvent) -> None:
        """Take the next event."""
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            given = _json(scheduled.input)
            self.activities[event.event_id] = Activity(
                scheduled.activity_type.name, given.get("step", ""), given.get("call", "")
            )
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            started = event.activity_task_started_event_attributes
            activity = self.activities[started.scheduled_event_id]
            activity.attempt, activity.identity = started.attempt, started.identity
        elif name := _CLOSED.get(event.event_type):
            ended = getattr(event, name)
            activity = self.activities[ended.scheduled_event_id]
            activity.closed = True
            result = _json(ended.result) if hasattr(ended, "result") else {}
            self._note_end(activity, result)

    def finished_steps(self) -> int:
        """Count the steps whose reply and whose calls' results are all in history."""
        return sum(self._answered[step] >= calls for step, calls in self._asked.items())

    def _note_end(self, activity: Activity, result: dict[str, Any]) -> None:
        if activity.call:
            self._answered[activity.step] += 1
        elif activity.type == CALL_CLAUDE and "message" in result:
            self._asked[activity.step] = len(result.get("calls", []))
            # Reads are run with the reply that asks for them.
            self._answered[activity.step] += sum(map(bool, result.get("results", [])))
            self.cost_usd += Decimal(str(result.get("spend", {}).get("cost_usd", 0)))
            self.saying = _text(json.loads(result["message"])) or self.saying


def _text(message: dict[str, Any]) -> str:
    return " ".join(block["text"] for block in message["content"] if block["type"] == "text")


def _json(payloads: Payloads) -> dict[str, Any]:
    """Return the object in the first payload; everything that Onward sends is one."""
    found: Any = json.loads(payloads.payloads[0].data or "null") if payloads.payloads else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
