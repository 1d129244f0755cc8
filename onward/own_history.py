"""How each step and call of a run ended, as its own history tells: what the ledger should hold."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from onward import transcript
from onward.ledger import Restored
from onward.messages import (
    BeginInput,
    BusinessKey,
    CallResult,
    ClaudeInput,
    ClaudeReply,
    Opening,
    Resolution,
    ResolveInput,
    ToolInput,
    Witness,
)
from onward.names import BEGIN, CALL_CLAUDE, RESERVED_ACTIVITIES, RESOLVE
from onward.records import Ending
from onward.transcript import BEGINNING, Turn

Keep = Callable[[str, str], Awaitable[None]]
"""Takes the whole text of a result, after its SHA-256."""


async def read_history(
    client: Client, workflow_id: str, run_id: str, keep: Keep | None = None
) -> "Told":
    """Read the history of one run; each whole text goes to `keep` as it comes.

    Raises `RPCError`, also where Temporal has forgotten the run, and `PayloadError`.
    """
    told = Told(client, keep)
    async for event in client.get_workflow_handle(
        workflow_id, run_id=run_id
    ).fetch_history_events():
        await told.hear(event)
    return told


class Told:
    """What a history tells."""

    def __init__(self, client: Client, keep: Keep | None = None) -> None:
        self._converter = client.data_converter
        self._keep_whole = keep
        self._scheduled: dict[int, tuple[str, Any]] = {}
        self._results: dict[str, CallResult] = {}
        self.records: dict[str, Restored] = {}
        self.turns: dict[str, str] = {}
        self.first_witness: Witness | None = None
        """What the first `begin` left."""
        self.unlike: list[str] = []
        """Steps whose reply answered another turn than can be rebuilt here."""

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
        known: dict[str, type] = {
            BEGIN: BeginInput,
            CALL_CLAUDE: ClaudeInput,
            RESOLVE: ResolveInput,
        }
        kind = known.get(name, ToolInput)
        if name in RESERVED_ACTIVITIES and name not in known:
            return None
        return (await self._converter.decode_wrapper(payloads, [kind]))[0]

    async def _ended(self, given: Any, payloads: Payloads) -> None:
        if isinstance(given, BeginInput):
            self._begun(await self._result(payloads, Opening))
        elif isinstance(given, ClaudeInput):
            self._replied(given, await self._result(payloads, ClaudeReply))
        elif isinstance(given, ToolInput):
            result = await self._result(payloads, CallResult)
            self._called(given, await self._without_whole(result))
        elif isinstance(given, ResolveInput):
            told: Resolution = await self._result(payloads, Resolution)
            result = None if told.result is None else await self._without_whole(told.result)
            self._settled(given, result)

    async def _without_whole(self, result: CallResult) -> CallResult:
        # One by one: those of a whole run would fill the worker's memory.
        if result.whole and self._keep_whole is not None:
            await self._keep_whole(result.whole_sha, result.whole)
        return result.model_copy(update={"whole": ""})

    async def _result(self, payloads: Payloads, kind: type) -> Any:
        return (await self._converter.decode_wrapper(payloads, [kind]))[0]

    def _begun(self, opening: Opening) -> None:
        self.first_witness = self.first_witness or opening.witness
        text = opening.model_dump_json()
        self.records[BEGINNING] = Restored(st="done", fp=BEGINNING, cls="read", result=text)

    def _replied(self, given: ClaudeInput, reply: ClaudeReply) -> None:
        adopted = Turn.model_validate_json(reply.turn) if reply.turn else None
        turn = adopted or transcript.build_turn(given.additions, self._results)
        if transcript.advance(given.head, given.step, turn, reply.message) != reply.head:
            self.unlike.append(given.step)
        text = reply.model_dump_json()
        self.turns[given.step] = turn.model_dump_json()
        self.records[given.step] = Restored(
            st="done", fp=given.head.digest, cls="read", result=text
        )

    def _called(self, given: ToolInput, result: CallResult) -> None:
        if result.status == "in_doubt":
            self._keep(given, _doubt(given, result))
            return
        self._results[given.call] = result
        self._keep(given, _ended(given, result))

    def _settled(self, given: ResolveInput, result: CallResult | None) -> None:
        if result is not None:
            self._results[given.call] = result
            self._keep(given, _ended(given, result))
            return
        # It is tried again, so its last word is no end.
        self.records.pop(given.call, None)
        self._free(given.business)

    def _keep(self, given: ToolInput | ResolveInput, record: Restored) -> None:
        self.records[given.call] = record
        key = given.business
        if key is None or key.everywhere:
            return
        # What the call asked for has its own record; a later call that only repeated it has none,
        # and one that was refused left it free.
        if record.st == "failed":
            self._free(key)
        elif key.position not in self.records or self.records[key.position].st == "doubt":
            self.records[key.position] = _of_key(given, key.position, record)

    def _free(self, key: BusinessKey | None) -> None:
        # Not what an earlier call did: this one may have ended before it was told of that.
        held = self.records.get(key.position) if key else None
        if key and held and held.st == "doubt":
            del self.records[key.position]


def _ended(given: ToolInput | ResolveInput, result: CallResult) -> Restored:
    status: Ending = "done" if result.status == "done" else "failed"
    text = result.record()
    return Restored(st=status, fp=given.fingerprint, cls=given.effect, result=text)


def _doubt(given: ToolInput, result: CallResult) -> Restored:
    at_ms = result.at_ms or None
    return Restored(st="doubt", fp=given.fingerprint, cls=given.effect, why=result.why, at_ms=at_ms)


def _of_key(given: ToolInput | ResolveInput, position: str, record: Restored) -> Restored:
    if record.result is None:
        return replace(record, fp=position)
    result = CallResult.model_validate_json(record.result)
    named = result.model_copy(update={"first_call": f"{given.run.workflow_id} {given.call}"})
    return replace(record, fp=position, result=named.record())
