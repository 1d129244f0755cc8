"""What people say to a run, as the histories of its workflow runs tell it: each thing once."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.api.common.v1 import Payloads
from temporalio.api.update.v1 import Request
from temporalio.client import Client

from onward import json_text
from onward.live.happenings import Decided, Happening, Messaged, Paused, Resumed, Stopping
from onward.messages import (
    Approval,
    CancelRequest,
    Carried,
    ClaudeReply,
    Denial,
    LimitChange,
    Message,
    PauseRequest,
    PreparedCall,
    ResolveInput,
    Wire,
)
from onward.messages import Paused as PausedRun
from onward.transcript import tool_uses
from onward.updates import Updates

Model = TypeVar("Model", bound=Wire)
_Said = Approval | Denial | LimitChange | Message
_UPDATES: dict[str, type[_Said]] = {
    "approve": Approval,
    "deny": Denial,
    "limit": LimitChange,
    "send": Message,
}
"""By name. What `resolve` says is told by the activity that records it."""


class People:
    """Listens to updates and signals, from the beginning of each workflow run."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._updates = Updates(client, _UPDATES)
        self._messages = set[str]()
        self._inputs: dict[str, str] = {}
        self._unapproved: dict[str, PreparedCall] = {}
        self._remembered = set[tuple[str, str]]()
        self._paused = False

    def begun(self, carried: Carried | None) -> Iterator[Happening]:
        """Begin with a workflow run, and with what it knows of those before it."""
        self._updates.forget()
        self._updates.answered_before(carried.answers if carried else ())
        self._messages = set(carried.messages if carried else ())
        remembered = carried.remembered if carried else ()
        self._remembered = {(each.tool, each.why) for each in remembered}
        if carried and carried.half:
            self._inputs = dict(carried.half.inputs)
            waiting = {each.call for each in carried.waiting}
            self._ask(call for call in carried.half.reply.calls if call.call in waiting)
        return self._found(carried.paused if carried else None)

    def _found(self, paused: PausedRun | None) -> Iterator[Happening]:
        if paused and not self._paused:
            yield Paused(paused.reason, paused.by)
        self._paused = paused is not None

    def called(self, reply: ClaudeReply) -> None:
        """Take the calls that people may be asked about."""
        uses = zip(reply.calls, tool_uses(reply.message), strict=False)
        self._inputs = {call.call: json_text.dumps(use.get("input", {})) for call, use in uses}
        self._ask(reply.calls)

    def _ask(self, calls: Iterable[PreparedCall]) -> None:
        asking = (call for call in calls if (call.tool, call.ask) not in self._remembered)
        self._unapproved = {call.call: call for call in asking if call.expires_s}

    def runs(self, call: str) -> Iterator[Happening]:
        """Tell that a call runs because nobody decided about it, if that is so."""
        if self._unapproved.pop(call, None):
            yield Decided("approved, for nobody had decided in time", call, "")

    # ---- updates

    def requested(self, request: Request) -> None:
        """Take what is asked for by an update."""
        self._updates.requested(request)

    async def answered(self, done: Any) -> Iterable[Happening]:
        """Take how an update ended: what was refused changed nothing, and is not told."""
        said = await self._updates.answered(done)
        return () if said is None else self._told(said, done.meta.update_id)

    def _told(self, said: _Said, update_id: str) -> Iterator[Happening]:
        match said:
            case Approval():
                yield from self._approved(said)
            case Denial():
                why = f" ({said.why})" if said.why else ""
                yield Decided(f"denied{why}", said.call, said.by)
            case LimitChange():
                yield Decided("limits changed", "", said.by)
            case Message():
                yield from self._sent(said, said.id or update_id)

    def _approved(self, said: Approval) -> Iterator[Happening]:
        call = self._unapproved.pop(said.call, None)
        if call and said.remember:
            self._remembered.add((call.tool, call.ask))
        instead_of = self._inputs.get(said.call, "") if said.edit else ""
        yield Decided("approved", said.call, said.by, said.edit, instead_of, said.remember)

    def _sent(self, said: Message, message_id: str) -> Iterator[Happening]:
        if message_id not in self._messages:
            self._messages.add(message_id)
            yield Messaged(message_id, said.text, said.by)

    # ---- the rest

    @staticmethod
    def resolved(given: ResolveInput) -> Happening:
        """Tell that a person settled a call in doubt."""
        return Decided(f"resolved ({given.outcome})", given.call, given.by)

    async def signaled(self, name: str, payloads: Payloads) -> Iterable[Happening]:
        """Take a signal."""
        if name == "cancel":
            asked = await self._request(payloads, CancelRequest)
            return [Stopping(asked.reason, asked.by, after_step=asked.after_step)]
        if name not in {"pause", "resume"}:
            return ()
        said = await self._request(payloads, PauseRequest)
        return self._paused_or_resumed(said, pausing=name == "pause")

    def _paused_or_resumed(self, said: PauseRequest, *, pausing: bool) -> Iterator[Happening]:
        if pausing != self._paused:
            yield (Paused if pausing else Resumed)(said.reason, said.by)
        self._paused = pausing

    async def _request(self, payloads: Payloads, kind: type[Model]) -> Model:
        """Read a signal's payload, as the run does: none at all, or just words, will do."""
        if not payloads.payloads:
            return kind()
        given: Any = (await self._client.data_converter.decode_wrapper(payloads))[0]
        try:
            return kind.model_validate({"reason": given} if isinstance(given, str) else given)
        except ValidationError:
            return kind()
