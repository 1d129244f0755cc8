"""Rebuild a run's records in Redis from its own history: history is enough, and outranks Redis.

No byte of the conversation passes through an activity's input: the history is read here, with the
worker's own client, and only a count goes back.
"""

from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent

from activities.failures import translated
from activities.pulse import Pulse
from activities.services import Services, reset_lineage
from onward import json_text, transcript
from onward.ledger import Restored
from onward.messages import (
    BeginInput,
    CallResult,
    ClaudeInput,
    ClaudeReply,
    Opening,
    Refilled,
    RefillInput,
    ToolInput,
)
from onward.names import BEGIN, CALL_CLAUDE, REFILL, RESERVED_ACTIVITIES
from onward.transcript import BEGINNING, Turn


class RefillActivity:
    """The activity `refill`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=REFILL)
    async def refill(self, given: RefillInput) -> Refilled:
        """Restore every ended step and call of the run, then take a new witness."""
        # Of the run, not of this worker: a deploy may have changed the setting.
        beat = activity.info().heartbeat_timeout or timedelta(seconds=self._services.takeover_s)
        async with Pulse(beat.total_seconds()):
            with translated():
                return await self._refill(given)

    async def _refill(self, given: RefillInput) -> Refilled:
        info = activity.info()
        handle = self._services.temporal.get_workflow_handle(
            info.workflow_id or "", run_id=info.workflow_run_id
        )
        told = _Told(self._services)
        async for event in handle.fetch_history_events():
            await told.hear(event)
        ledger = self._services.ledger(given.run)
        await ledger.restore(told.records, told.turns)
        witness = await ledger.begin(given.witness, reset_lineage=reset_lineage(given.run))
        return Refilled(records=len(told.records), witness=witness)


class _Told:
    """What a history tells: how each step and call ended."""

    def __init__(self, services: Services) -> None:
        self._converter = services.temporal.data_converter
        self._scheduled: dict[int, tuple[str, Any]] = {}
        self._results: dict[str, CallResult] = {}
        self.records: dict[str, Restored] = {}
        self.turns: dict[str, str] = {}

    async def hear(self, event: HistoryEvent) -> None:
        """Take the next event."""
        if event.HasField("activity_task_scheduled_event_attributes"):
            attributes = event.activity_task_scheduled_event_attributes
            name = attributes.activity_type.name
            self._scheduled[event.event_id] = (name, await self._input(name, attributes.input))
        elif event.HasField("activity_task_completed_event_attributes"):
            done = event.activity_task_completed_event_attributes
            name, given = self._scheduled.pop(done.scheduled_event_id)
            await self._ended(given, done.result)

    async def _input(self, name: str, payloads: Payloads) -> Any:
        known: dict[str, type] = {BEGIN: BeginInput, CALL_CLAUDE: ClaudeInput}
        kind = known.get(name, ToolInput)
        if name in RESERVED_ACTIVITIES and name not in known:
            return None
        return (await self._converter.decode_wrapper(payloads, [kind]))[0]

    async def _ended(self, given: Any, payloads: Payloads) -> None:
        if isinstance(given, BeginInput):
            self._begun(given, await self._result(payloads, Opening))
        elif isinstance(given, ClaudeInput):
            self._replied(given, await self._result(payloads, ClaudeReply))
        elif isinstance(given, ToolInput):
            self._called(given, await self._result(payloads, CallResult))

    async def _result(self, payloads: Payloads, kind: type) -> Any:
        return (await self._converter.decode_wrapper(payloads, [kind]))[0]

    def _begun(self, given: BeginInput, opening: Opening) -> None:
        fp = json_text.sha256(given.request.model_dump_json())
        text = opening.model_dump_json()
        self.records[BEGINNING] = Restored(st="done", fp=fp, cls="read", result=text)

    def _replied(self, given: ClaudeInput, reply: ClaudeReply) -> None:
        adopted = Turn.model_validate_json(reply.turn) if reply.turn else None
        turn = adopted or transcript.build_turn(given.additions, self._results)
        if transcript.advance(given.head, given.step, turn, reply.message) != reply.head:
            activity.logger.warning("the turn of step %s cannot be rebuilt alike", given.step)
        text = reply.model_dump_json()
        self.turns[given.step] = turn.model_dump_json()
        self.records[given.step] = Restored(
            st="done", fp=given.head.digest, cls="read", result=text
        )

    def _called(self, given: ToolInput, result: CallResult) -> None:
        fp, effect = given.fingerprint, given.effect
        if result.status == "in_doubt":
            self.records[given.call] = Restored(st="doubt", fp=fp, cls=effect, why=result.why)
            return
        self._results[given.call] = result
        text = result.model_dump_json()
        self.records[given.call] = Restored(st=result.status, fp=fp, cls=effect, result=text)
