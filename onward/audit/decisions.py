"""What was decided of a run's calls: by people, by what they said before, or because nobody did."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from temporalio.api.common.v1 import Payloads
from temporalio.api.update.v1 import Request
from temporalio.client import Client

from onward import history
from onward.messages import (
    Approval,
    Carried,
    Denial,
    Edited,
    PreparedCall,
    Resolution,
    Resolve,
)
from onward.updates import Updates

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


class Decisions:
    """Listens to the updates of a run's workflow runs, and to the judging of edits."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._updates = Updates[_Said](client, _UPDATES)
        self._edited = dict[str, PreparedCall]()
        self._remembered = dict[tuple[str, str], Decision]()

    def resumed(self, carried: Carried) -> None:
        """Take what a workflow run knows of those before it, which may be forgotten."""
        self._updates.answered_before(carried.answers)

    def requested(self, request: Request) -> None:
        """Take what is asked for by an update."""
        self._updates.requested(request)

    async def answered(self, done: Any) -> Answered | None:
        """Take how an update ended; None: it decided nothing, or was heard before."""
        said = await self._updates.answered(done)
        if isinstance(said, Resolve):
            resolution = await history.read(self._client, done.outcome.success, Resolution)
            return Answered(said, resolution, None)
        edited = self._edited.get(said.call) if isinstance(said, Approval) and said.edit else None
        return Answered(said, None, edited) if said else None

    async def judged(self, result: Payloads) -> None:
        """Take what became of the judging of an edit."""
        call = (await history.read(self._client, result, Edited)).call
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
