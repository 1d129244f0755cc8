"""What a run's history says of each call: who asked, who decided, when it ran, what came of it."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeVar

from pydantic import ValidationError
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from onward import history
from onward.audit.decisions import Decision, Decisions
from onward.errors import PayloadError
from onward.messages import (
    CallResult,
    Carried,
    ClaudeInput,
    ClaudeReply,
    Fork,
    Opening,
    PersonSaid,
    PreparedCall,
    Refilled,
    Resolution,
    ResultWritten,
    RunRef,
    RunRequest,
    ToolInput,
    Wire,
)
from onward.names import BEGIN, CALL_CLAUDE, EDIT, FORK, REFILL, RESERVED_ACTIVITIES
from onward.wording import says_nobody_answered

Model = TypeVar("Model", bound=Wire)
_BRING_WITNESS: dict[str, type[Opening | Refilled | Carried]] = {
    BEGIN: Opening,
    FORK: Carried,
    REFILL: Refilled,
}
_CLOSES = frozenset(
    f"workflow_execution_{how}_event_attributes"
    for how in ("completed", "failed", "timed_out", "canceled", "terminated")
)


@dataclass
class CallStory:
    """One call, as far as history tells."""

    prepared: PreparedCall
    """As it ran, or would run: of a call that a person edited, the edited one."""
    run: RunRef | None
    """The run that asked for it; None where history does not know the call."""
    scheduled: datetime | None = None
    ended: datetime | None = None
    attempts: int = 0
    """Of Temporal, over all the times that the call was scheduled."""
    open_activity: str = ""
    """Id of the activity that runs it right now."""
    failure: str = ""
    """How its last activity ended, if that brought no result."""
    doubt: str = ""
    """Why it was last in doubt, also where a person has settled that."""
    to_repeat: bool = False
    """That failure only sent the workflow to refill the ledger; nothing was fired."""
    status: Literal["done", "failed", "in_doubt"] | None = None
    """How its last activity ended, or a person settled it; None: it did not, or that is lost."""
    recorded: bool = True
    """False: the ledger could not be told how it ended."""
    decisions: list[Decision] = field(default_factory=list[Decision])
    in_step: bool = False
    """It only read, and was run in the activity that asked Claude."""
    over: bool = False
    """Claude was asked for the next step, so nothing of this one runs any more."""
    told: str = ""
    """What the workflow told Claude itself, without a result."""
    asked_for: PreparedCall | None = None
    """What Claude had asked for, where a person edited it."""


class Timeline:
    """Listens to the histories of a run's workflow runs, each from its beginning."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asking: dict[int, ClaudeInput] = {}
        self._witnesses: dict[int, type[Opening | Refilled | Carried]] = {}
        self._firing: dict[int, CallStory] = {}
        self._editing = set[int]()
        self._decisions = Decisions(client)
        self.calls: dict[str, CallStory] = {}
        self.nonces: list[str] = []
        """Birth nonces of the ledger, each once, in the order seen. More than one: it was lost."""
        self.closed = False
        self.was_reset = False
        self.reset_from = ""
        """Run id of the run that was reset to make this one; empty: none was, or it is unknown."""
        self.parent: Fork | None = None
        """The run whose conversation this one began with a copy of."""
        self.copied_steps = 0
        """Of that conversation: its calls are the other run's."""
        self.lost: list[str] = []
        """Of payloads that could not be read: what is wrong with each."""
        self._takes: dict[str, Callable[[HistoryEvent], Awaitable[None]]] = {
            "workflow_execution_started_event_attributes": self._begun,
            "activity_task_scheduled_event_attributes": self._scheduled,
            "activity_task_started_event_attributes": self._started,
            "activity_task_completed_event_attributes": self._completed,
            "activity_task_failed_event_attributes": self._failed,
            "activity_task_timed_out_event_attributes": self._timed_out,
            "activity_task_canceled_event_attributes": self._cancelled,
            "workflow_execution_update_admitted_event_attributes": self._admitted,
            "workflow_execution_update_accepted_event_attributes": self._accepted,
            "workflow_execution_update_completed_event_attributes": self._decided,
            "workflow_task_failed_event_attributes": self._task_failed,
        }

    async def hear(self, event: HistoryEvent) -> None:
        """Take the next event."""
        kind = event.WhichOneof("attributes") or ""
        self.closed = kind in _CLOSES
        if take := self._takes.get(kind):
            try:
                await take(event)
            except PayloadError as error:
                self.lost.append(str(error))

    async def _begun(self, event: HistoryEvent) -> None:
        # Each workflow run numbers its events anew.
        for numbered in (self._asking, self._witnesses, self._firing, self._editing):
            numbered.clear()
        given = event.workflow_execution_started_event_attributes.input
        with suppress(ValidationError, IndexError):  # what no run could begin with
            request = await self._read(given, RunRequest)
            self.parent = request.fork
            self._resumed(request.carried)

    def _resumed(self, carried: Carried | None) -> None:
        if carried is not None:
            self._witness(carried.witness.nonce)
            self.was_reset = self.was_reset or carried.reset_lineage
            self.copied_steps = carried.opening.copied_steps
            self._decisions.resumed(carried)

    # ---- activities

    async def _scheduled(self, event: HistoryEvent) -> None:
        attributes = event.activity_task_scheduled_event_attributes
        name = attributes.activity_type.name
        if name == CALL_CLAUDE:
            given = await self._read(attributes.input, ClaudeInput)
            self._asking[event.event_id] = given
            self._over(given, _time(event))
        elif name == EDIT:
            self._editing.add(event.event_id)
        elif name in _BRING_WITNESS:
            self._witnesses[event.event_id] = _BRING_WITNESS[name]
        elif name not in RESERVED_ACTIVITIES:
            story = self._called(name, await self._read(attributes.input, ToolInput))
            if not (story.scheduled or story.decisions):
                self._unsaid(story, _time(event))
            story.scheduled = story.scheduled or _time(event)
            story.open_activity, story.failure = attributes.activity_id, ""
            self._firing[event.event_id] = story

    def _called(self, tool: str, given: ToolInput) -> CallStory:
        # The reply that asked for it may be in a payload that is lost.
        return self.calls.setdefault(given.call, CallStory(_named(tool, given), given.run))

    async def _started(self, event: HistoryEvent) -> None:
        attributes = event.activity_task_started_event_attributes
        if story := self._firing.get(attributes.scheduled_event_id):
            story.attempts += attributes.attempt

    async def _completed(self, event: HistoryEvent) -> None:
        done = event.activity_task_completed_event_attributes
        number = done.scheduled_event_id
        if given := self._asking.get(number):
            self._replied(given, await self._read(done.result, ClaudeReply), _time(event))
        elif kind := self._witnesses.get(number):
            brought = await self._read(done.result, kind)
            self._witness(brought.witness.nonce)
            self._resumed(brought if isinstance(brought, Carried) else None)
        elif number in self._editing:
            await self._decisions.judged(done.result)
        elif story := self._ended(number, event):
            result = await self._read(done.result, CallResult)
            story.recorded, story.status = result.recorded, result.status
            if result.status == "in_doubt":
                story.doubt = result.why

    async def _failed(self, event: HistoryEvent) -> None:
        attributes = event.activity_task_failed_event_attributes
        await self._broke(attributes.scheduled_event_id, event, attributes.failure)

    async def _timed_out(self, event: HistoryEvent) -> None:
        attributes = event.activity_task_timed_out_event_attributes
        await self._broke(attributes.scheduled_event_id, event, attributes.failure)

    async def _cancelled(self, event: HistoryEvent) -> None:
        attributes = event.activity_task_canceled_event_attributes
        if story := self._ended(attributes.scheduled_event_id, event):
            story.failure, story.to_repeat = "it was cancelled", False

    async def _broke(self, number: int, event: HistoryEvent, failure: Failure) -> None:
        if story := self._ended(number, event):
            raised = history.told(failure)
            story.failure = await history.failure_text(self._client, raised)
            story.to_repeat = raised.application_failure_info.type == "ledger_gap"

    def _ended(self, number: int, event: HistoryEvent) -> CallStory | None:
        story = self._firing.pop(number, None)
        if story is not None:
            story.ended, story.open_activity = _time(event), ""
        return story

    def _replied(self, given: ClaudeInput, reply: ClaudeReply, at: datetime) -> None:
        self._witness(reply.witness.nonce)
        self.calls.update({call.call: CallStory(call, given.run) for call in reply.calls})
        for call, result in zip(reply.calls, reply.results, strict=False):
            if result is not None:
                story = self.calls[call.call]
                story.ended, story.in_step = at, True
                story.status, story.recorded = result.status, result.recorded

    def _unsaid(self, story: CallStory, at: datetime) -> None:
        if decision := self._decisions.unsaid(story.prepared, at):
            story.decisions.append(decision)

    def _over(self, given: ClaudeInput, at: datetime) -> None:
        """Take what Claude is told of the calls before: results come in the order of the calls."""
        step = given.head.step
        calls = [each for name, each in self.calls.items() if name.rpartition(".")[0] == step]
        results = [item for item in given.additions if not isinstance(item, PersonSaid)]
        for story, item in zip(calls, results, strict=False):
            story.over = True
            story.told = item.text if isinstance(item, ResultWritten) else ""
            if not story.decisions and says_nobody_answered(story.told):
                story.decisions.append(Decision("denied", "", at, expired=True))

    def _witness(self, nonce: str) -> None:
        if nonce and nonce not in self.nonces:
            self.nonces.append(nonce)

    # ---- what people said

    async def _admitted(self, event: HistoryEvent) -> None:
        admitted = event.workflow_execution_update_admitted_event_attributes
        self._decisions.requested(admitted.request)

    async def _accepted(self, event: HistoryEvent) -> None:
        accepted = event.workflow_execution_update_accepted_event_attributes
        self._decisions.requested(accepted.accepted_request)

    async def _decided(self, event: HistoryEvent) -> None:
        done = event.workflow_execution_update_completed_event_attributes
        answered = await self._decisions.answered(done)
        story = self.calls.get(answered.said.call) if answered else None
        if answered is None or story is None:
            return
        decision = answered.decision(story.doubt, _time(event))
        story.decisions.append(decision)
        if answered.edited:
            story.prepared, story.asked_for = answered.edited, story.prepared
        elif decision.remember:
            self._decisions.remember(story.prepared, decision)
        if answered.answer:
            _settle(story, answered.answer)

    # ---- the run

    async def _task_failed(self, event: HistoryEvent) -> None:
        failed = event.workflow_task_failed_event_attributes
        reset = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
        if failed.cause == reset:
            self.was_reset, self.reset_from = True, failed.base_run_id

    async def _read(self, payloads: Payloads, kind: type[Model]) -> Model:
        return await history.read(self._client, payloads, kind)


def _settle(story: CallStory, verdict: Resolution) -> None:
    if verdict.verdict == "open":  # it is tried again
        story.ended = story.status = None
    else:
        story.status = verdict.verdict


def _named(tool: str, given: ToolInput) -> PreparedCall:
    return PreparedCall(
        call=given.call,
        tool_use_id="",
        tool=tool,
        effect=given.effect,
        fingerprint=given.fingerprint,
        key=given.key,
        summary="",
        timeout_s=given.timeout_s,
        business=given.business,
    )


def _time(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime(tzinfo=UTC)
