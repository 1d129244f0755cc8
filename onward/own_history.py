"""How each step and call of a run ended, as its own history tells: what the ledger should hold.

The history of the newest workflow run is enough: what those before it in the chain told is in the
segments that it was started with.
"""

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from onward import segments
from onward.earlier import Earlier
from onward.edits import Edits
from onward.messages import (
    BeginInput,
    CallResult,
    Carried,
    ClaudeInput,
    ClaudeReply,
    Edited,
    EditInput,
    ForkInput,
    Opening,
    Resolution,
    ResolveInput,
    RunRequest,
    ToolInput,
    Witness,
)
from onward.names import BEGIN, CALL_CLAUDE, EDIT, FORK, RESERVED_ACTIVITIES, RESOLVE
from onward.rebuilding import Asked, Rebuilding
from onward.records import Restored
from onward.run_records import Added, RunRecords


@dataclass(frozen=True)
class Told:
    """What the history of a run's newest workflow run tells, with the segments that it names."""

    earlier: RunRecords = field(default_factory=RunRecords)
    """What the segments hold that the workflow run was started with."""
    rebuilt: RunRecords = field(default_factory=RunRecords)
    """What the ledger should hold."""
    first_witness: Witness | None = None
    """What the first `begin` left, or what the run was started with."""

    @property
    def records(self) -> dict[str, Restored]:
        """How steps and calls ended, by position."""
        return self.rebuilt.ends

    @property
    def turns(self) -> dict[str, str]:
        """Frozen user turns, by step."""
        return self.rebuilt.turns


async def read_history(
    client: Client, workflow_id: str, run_id: str, *, stores: bool = False
) -> Told:
    """Read the history of one workflow run; with `stores`, keep whole texts where later ones are.

    Raises `RPCError`, also where Temporal has forgotten the run, and `PayloadError`.
    """
    return await (await _heard(client, workflow_id, run_id, stores=stores)).told()


async def read_added(client: Client, workflow_id: str, run_id: str) -> Added:
    """Read what one workflow run added to its chain, and as little of the rest as that needs.

    Raises as `read_history`.
    """
    return (await _heard(client, workflow_id, run_id, stores=True)).added()


async def _heard(client: Client, workflow_id: str, run_id: str, *, stores: bool) -> "Hearing":
    hearing = Hearing(client, stores=stores)
    async for event in client.get_workflow_handle(
        workflow_id, run_id=run_id
    ).fetch_history_events():
        await hearing.hear(event)
    return hearing


class Hearing:
    """Takes a history event by event."""

    def __init__(self, client: Client, *, stores: bool = False) -> None:
        self._converter = client.data_converter
        self._stores = stores
        self._scheduled: dict[int, Any] = {}
        self._earlier = Earlier(self._converter)
        self._rebuilding = Rebuilding()
        self._edits = Edits()
        self._first_witness: Witness | None = None

    async def told(self) -> Told:
        """Return all that was told so far. Raises `PayloadError`."""
        earlier = await self._earlier.whole()
        rebuilt = earlier.copy()
        rebuilt.lay(self.added())
        return Told(earlier, rebuilt, self._first_witness)

    def added(self) -> Added:
        """Return what this workflow run added to the chain's records."""
        return self._rebuilding.added()

    async def hear(self, event: HistoryEvent) -> None:
        """Take the next event."""
        if event.HasField("workflow_execution_started_event_attributes"):
            await self._started(event.workflow_execution_started_event_attributes.input)
        elif event.HasField("activity_task_scheduled_event_attributes"):
            attributes = event.activity_task_scheduled_event_attributes
            name = attributes.activity_type.name
            given = await self._input(name, attributes.input)
            self._scheduled[event.event_id] = given
            self._runs(given)
        elif event.HasField("activity_task_completed_event_attributes"):
            done = event.activity_task_completed_event_attributes
            await self._ended(self._scheduled.pop(done.scheduled_event_id), done.result)

    async def _started(self, payloads: Payloads) -> None:
        try:
            request: RunRequest = await self._result(payloads, RunRequest)
        except (ValidationError, IndexError):
            return  # nothing that the workflow could have begun with
        self._rebuilding.prompt = request.prompt
        if request.carried:
            self._carried(request.carried)

    def _carried(self, carried: Carried) -> None:
        self._earlier = Earlier(self._converter, carried.segments)
        self._first_witness = self._first_witness or carried.witness
        self._edits.carried(carried.half)

    async def _input(self, name: str, payloads: Payloads) -> Any:
        known: dict[str, type] = {
            BEGIN: BeginInput,
            FORK: ForkInput,
            CALL_CLAUDE: ClaudeInput,
            RESOLVE: ResolveInput,
            EDIT: EditInput,
        }
        kind = known.get(name, ToolInput)
        if name in RESERVED_ACTIVITIES and name not in known:
            return None
        return await self._result(payloads, kind)

    def _runs(self, given: Any) -> None:
        edited = self._edits.ran(given) if isinstance(given, ToolInput) else None
        if edited:
            self._rebuilding.edited(edited)

    async def _ended(self, given: Any, payloads: Payloads) -> None:
        if isinstance(given, BeginInput):
            self._begun(await self._result(payloads, Opening))
        elif isinstance(given, ForkInput):
            self._carried(await self._result(payloads, Carried))
        elif isinstance(given, ClaudeInput):
            await self._replied(given, await self._result(payloads, ClaudeReply))
        elif isinstance(given, ToolInput):
            called = await self._bounded(await self._result(payloads, CallResult))
            self._rebuilding.called(Asked.of(given, given.run.workflow_id), called)
        elif isinstance(given, EditInput):
            self._edits.judged(await self._result(payloads, Edited))
        elif isinstance(given, ResolveInput):
            told: Resolution = await self._result(payloads, Resolution)
            settled = told.result and await self._bounded(told.result)
            self._rebuilding.settled(Asked.of(given, given.run.workflow_id), settled)

    def _begun(self, opening: Opening) -> None:
        self._first_witness = self._first_witness or opening.witness
        self._rebuilding.begun(opening)

    async def _replied(self, given: ClaudeInput, reply: ClaudeReply) -> None:
        results = [result and await self._bounded(result) for result in reply.results]
        whole = reply.model_copy(update={"results": tuple(results)})
        earlier = await self._earlier.ends(self._rebuilding.lacking(given))
        self._rebuilding.replied(given, whole, earlier)

    async def _bounded(self, result: CallResult) -> CallResult:
        """Let go of a whole text, at once: those of a whole run would fill the worker's memory."""
        if not result.whole:
            return result
        at = await segments.keep(self._converter, result.whole.encode()) if self._stores else ""
        return result.model_copy(update={"whole": "", "whole_sha": "", "whole_at": at})

    async def _result(self, payloads: Payloads, kind: type) -> Any:
        return (await self._converter.decode_wrapper(payloads, [kind]))[0]
