"""What was decided of a run's calls: by people, by what they said before, or because nobody did."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from temporalio.api.common.v1 import Payloads
from temporalio.api.update.v1 import Request
from temporalio.client import Client

from onward.messages import (
    Approval,
    Carried,
    Denial,
    Edited,
    PreparedCall,
    Resolution,
    Resolve,
    Wire,
)

Model = TypeVar("Model", bound=Wire)
_Said = Approval | Denial | Resolve
_UPDATES: dict[str, type[_Said]] = {"approve": Approval, "deny": Denial, "resolve": Resolve}


@dataclass(frozen=True)
class Decision:
    """What was decided of a call, and taken."""

    what: Literal["approved", "denied", "resolved"]
    by: str
    """Who they are, as their client claimed: nobody has checked it."""
    at: datetime
    said: str = ""
    retry: bool = False
    """It was to be tried again."""
    doubt: str = ""
    """Of a call resolved: why it had been in doubt."""
    edit: str = ""
    """The input that they gave the call instead of Claude's, JSON text."""
    remember: bool = False
    """Of an approval: it holds for calls like this one, too."""
    expired: bool = False
    """Nobody decided in time, and this counts as said."""


@dataclass(frozen=True)
class Answered:
    """What a person said, and the run's answer."""

    said: _Said
    answer: Resolution | None
    """Of a call resolved."""
    edited: PreparedCall | None
    """Of an approval with an edit: the call as it runs now."""

    def decision(self, doubt: str, at: datetime) -> Decision:
        """Put it in words; `doubt` is why the call was in doubt."""
        match self.said:
            case Approval(by=by, edit=edit, remember=remember):
                return Decision("approved", by, at, edit=edit, remember=remember)
            case Denial(by=by, why=why):
                return Decision("denied", by, at, why)
            case Resolve(by=by):
                verdict = self.answer.verdict if self.answer else "open"
                words = _settled(self.said, verdict)
                return Decision("resolved", by, at, words, retry=verdict == "open", doubt=doubt)


def _settled(said: Resolve, verdict: str) -> str:
    words = f"{said.outcome}: {said.note}" if said.note else str(said.outcome)
    if verdict in {said.outcome, "open"}:
        return words
    return f"{words} (it had turned out to be {verdict} meanwhile, and that stands)"


@dataclass
class Decisions:
    """Listens to the updates of a run's workflow runs, and to the judging of edits."""

    client: Client
    _requests: dict[str, Request] = field(default_factory=dict[str, Request])
    _answered: set[str] = field(default_factory=set[str])
    _edited: dict[str, PreparedCall] = field(default_factory=dict[str, PreparedCall])
    _remembered: dict[tuple[str, str], Decision] = field(
        default_factory=dict[tuple[str, str], Decision]
    )

    def resumed(self, carried: Carried) -> None:
        """Take what a workflow run knows of those before it, which may be forgotten."""
        self._answered |= carried.answers.keys()

    def requested(self, request: Request) -> None:
        """Take what is asked for by an update."""
        # A reset says again what people had said: then the request is in an event of its own.
        if request.HasField("input"):
            self._requests[request.meta.update_id] = request

    async def answered(self, done: Any) -> Answered | None:
        """Take how an update ended; None: it decided nothing, or was heard before."""
        update_id = done.meta.update_id
        request = self._requests.pop(update_id, None)
        if request is None or request.input.name not in _UPDATES:
            return None
        if done.outcome.HasField("failure") or update_id in self._answered:
            return None
        self._answered.add(update_id)
        said = await self._read(request.input.args, _UPDATES[request.input.name])
        if isinstance(said, Resolve):
            return Answered(said, await self._read(done.outcome.success, Resolution), None)
        edited = self._edited.get(said.call) if isinstance(said, Approval) and said.edit else None
        return Answered(said, None, edited)

    async def judged(self, result: Payloads) -> None:
        """Take what became of the judging of an edit."""
        call = (await self._read(result, Edited)).call
        if call is None:
            return
        self._edited.pop(call.call, None)
        if call.asked:  # else it is as Claude asked for it
            self._edited[call.call] = call

    def remember(self, call: PreparedCall, decision: Decision) -> None:
        """Keep an approval that holds for later calls too."""
        self._remembered[call.tool, call.ask] = replace(
            decision, said=f"together with {call.call}", remember=False
        )

    def unsaid(self, call: PreparedCall, at: datetime) -> Decision | None:
        """Say why a call ran of which nobody said anything; None: it needed no approval."""
        if remembered := self._remembered.get((call.tool, call.ask)):
            return remembered
        expired = call.ask and call.expires_s and call.otherwise == "approve"
        return Decision("approved", "", at, expired=True) if expired else None

    async def _read(self, payloads: Payloads, kind: type[Model]) -> Model:
        values: list[Any] = await self.client.data_converter.decode_wrapper(payloads, [kind])
        return kind.model_validate(values[0])
