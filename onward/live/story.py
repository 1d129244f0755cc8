"""What a workflow run's history tells to those who watch, event by event."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.api.common.v1 import Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from onward import history, json_text
from onward.errors import PayloadError
from onward.history import told
from onward.live.happenings import (
    Asked,
    CallEnded,
    Happening,
    Replied,
    Stopping,
    Trouble,
    Unanswered,
)
from onward.live.people import People
from onward.messages import (
    Addition,
    CallResult,
    Carried,
    ClaudeInput,
    ClaudeReply,
    Continue,
    PersonSaid,
    Prompt,
    Resolution,
    ResolveInput,
    ResultWritten,
    RunRequest,
    Spend,
    ToolInput,
    Wire,
)
from onward.names import CALL_CLAUDE, FORK, NOTIFY, RESERVED_ACTIVITIES, RESOLVE
from onward.retelling.pieces import content_text
from onward.transcript import is_summary
from onward.wording import Troubles, in_words, says_unknown

Model = TypeVar("Model", bound=Wire)
Take = Callable[[int, Any], Awaitable[Iterable[Happening]]]
"""Takes the attributes of an event, and its number."""


class Story:
    """Listens to the histories of a run's workflow runs, each from its beginning."""

    def __init__(self, client: Client) -> None:
        self._client, self._run_id = client, ""
        self._people, self._hook = People(client), Troubles()
        self._prompt = ""
        self._scheduled: dict[int, tuple[str, Any]] = {}
        self._tools: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._ended: set[str] = set()
        self.steps = 0
        """That Claude has answered, those before this workflow run too."""
        self.total = Spend()
        self._takes: dict[str, Take] = {
            "workflow_execution_started_event_attributes": self._begun,
            "activity_task_scheduled_event_attributes": self._asked,
            "activity_task_completed_event_attributes": self._completed,
            "activity_task_failed_event_attributes": self._broke,
            "activity_task_timed_out_event_attributes": self._broke,
            "activity_task_canceled_event_attributes": self._broke,
            "workflow_execution_update_admitted_event_attributes": self._admitted,
            "workflow_execution_update_accepted_event_attributes": self._accepted,
            "workflow_execution_update_completed_event_attributes": self._answered,
            "workflow_execution_signaled_event_attributes": self._signaled,
            "workflow_execution_cancel_requested_event_attributes": self._stopped,
        }

    def turn_to(self, run_id: str) -> None:
        """Begin with another workflow run of the chain."""
        self._run_id = run_id
        self._scheduled.clear()  # each workflow run numbers its events anew

    async def hear(self, event: HistoryEvent) -> list[Happening]:
        """Take the next event, and say what happened."""
        kind = event.WhichOneof("attributes") or ""
        if (take := self._takes.get(kind)) is None:
            return []
        try:
            return [*await take(event.event_id, getattr(event, kind))]
        except (PayloadError, ValueError) as error:  # of a file that is not here, a newer release
            why = str(error).partition("\n")[0]
            return [Trouble(f"something that happened cannot be shown: {why}")]

    # ---- the beginning

    async def _begun(self, _number: int, attributes: Any) -> Iterable[Happening]:
        self.steps, self.total = 0, Spend()
        try:
            request = await self._read(attributes.input, RunRequest)
        except (ValidationError, IndexError):  # what no run could begin with
            return ()
        self._prompt = request.prompt
        if request.carried:
            self._resumed(request.carried)
        return self._people.begun(request.carried)

    def _resumed(self, carried: Carried) -> None:
        self.steps, self.total = carried.steps, carried.spend
        if carried.half:
            self._called(carried.half.reply)
            self._ended |= carried.half.results.keys()

    # ---- a step

    async def _asked(self, number: int, attributes: Any) -> Iterable[Happening]:
        name, given = attributes.activity_type.name, attributes.input
        kinds: dict[str, type[Wire]] = {CALL_CLAUDE: ClaudeInput, RESOLVE: ResolveInput}
        kind = kinds.get(name, Wire if name in RESERVED_ACTIVITIES else ToolInput)
        asked = None if kind is Wire else await self._read(given, kind)
        self._scheduled[number] = name, asked
        if isinstance(asked, ToolInput):
            self._tools.setdefault(asked.call, name)
            return self._people.runs(asked.call)
        return self._step(asked) if isinstance(asked, ClaudeInput) else ()

    def _step(self, given: ClaudeInput) -> Iterator[Happening]:
        for item in given.additions:
            call = self._calls.get(getattr(item, "tool_use_id", ""), "")
            if isinstance(item, ResultWritten) and call not in self._ended:
                yield self._written(call, item)
        said = tuple(filter(None, map(self._said, given.additions)))
        yield Asked(self._run_id, given.step, said)

    def _written(self, call: str, item: ResultWritten) -> Happening:
        how = "in_doubt" if says_unknown(item.text) else "not_run"
        return CallEnded(call, self._tools.get(call, ""), how, item.text)

    def _said(self, item: Addition) -> tuple[str, str] | None:
        match item:
            case Prompt():
                return item.id, self._prompt
            case PersonSaid():
                return item.id, item.text
            case Continue():
                return item.id, ""
            case _:
                return None

    async def _completed(self, _number: int, attributes: Any) -> Iterable[Happening]:
        name, given = self._scheduled.pop(attributes.scheduled_event_id, ("", None))
        if isinstance(given, ClaudeInput):
            return self._replied(given, await self._read(attributes.result, ClaudeReply))
        if isinstance(given, ToolInput):
            return [self._result(given.call, await self._read(attributes.result, CallResult))]
        if isinstance(given, ResolveInput):
            return self._settled(given, await self._read(attributes.result, Resolution))
        if name == FORK:
            self._resumed(await self._read(attributes.result, Carried))
        return ()

    def _replied(self, given: ClaudeInput, reply: ClaudeReply) -> Iterator[Happening]:
        self.steps += not is_summary(given.step)
        self.total += reply.spend
        self._called(reply)
        self._people.called(reply)
        yield Replied(given.step, reply, self.total)
        for call, result in zip(reply.calls, reply.results, strict=False):
            if result is not None:
                yield self._result(call.call, result)

    def _settled(self, given: ResolveInput, resolution: Resolution) -> Iterator[Happening]:
        yield self._people.resolved(given)
        if resolution.result:
            yield self._result(given.call, resolution.result)

    def _called(self, reply: ClaudeReply) -> None:
        self._tools = {call.call: call.tool for call in reply.calls}
        self._calls = {call.tool_use_id: call.call for call in reply.calls}
        self._ended = set()

    def _result(self, call: str, result: CallResult) -> Happening:
        self._ended.add(call)
        text = in_words(result.why) or content_text(json_text.loads(result.content))
        return CallEnded(call, self._tools.get(call, ""), result.status, text, result.took_s)

    async def _broke(self, _number: int, attributes: Any) -> Iterable[Happening]:
        """Say that a step has no reply; of a call, Claude is told something, which is told then."""
        name, given = self._scheduled.pop(attributes.scheduled_event_id, ("", None))
        if name == NOTIFY:
            return self._not_told()
        if not isinstance(given, ClaudeInput):
            return ()
        # A cancel has no failure: nobody said why.
        failure = told(getattr(attributes, "failure", Failure(message="cancelled")))
        if last := await history.gave_up(self._client, failure):
            self.total += last.spend
        if failure.application_failure_info.type == "ledger_gap":
            return ()  # the ledger is filled again, and Claude asked once more
        return [Unanswered(given.step, await history.failure_text(self._client, failure))]

    # ---- people

    def _not_told(self) -> Iterator[Happening]:
        # Its hook fails each time anew: once is news.
        for text in self._hook.new(["the app's on_waiting fails: it is not told what waits"]):
            yield Trouble(text)

    async def _admitted(self, _number: int, attributes: Any) -> Iterable[Happening]:
        self._people.requested(attributes.request)
        return ()

    async def _accepted(self, _number: int, attributes: Any) -> Iterable[Happening]:
        self._people.requested(attributes.accepted_request)
        return ()

    async def _answered(self, _number: int, attributes: Any) -> Iterable[Happening]:
        return await self._people.answered(attributes)

    async def _signaled(self, _number: int, attributes: Any) -> Iterable[Happening]:
        return await self._people.signaled(attributes.signal_name, attributes.input)

    async def _stopped(self, _number: int, attributes: Any) -> Iterable[Happening]:
        return [Stopping(attributes.cause)]

    async def _read(self, payloads: Payloads, kind: type[Model]) -> Model:
        return await history.read(self._client, payloads, kind)
