"""Calls that wait for a person, and what people said: pure state, no I/O, no Temporal."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from onward.messages import Approval, Denial, Resolution, Said, Waiting, WaitKind

Decision = Approval | Denial | Resolution
D = TypeVar("D", Approval, Denial, Resolution)

_WHAT_TO_SAY = {
    "approval": "waits for an approval: approve it or deny it",
    "doubt": "is in doubt: resolve it",
    "limit": "is no call: the run has met a limit. `limit` raises it",
}


@dataclass
class WaitingCalls:
    """The calls of one run that wait right now, by call."""

    shown: dict[str, Waiting] = field(default_factory=dict[str, Waiting])
    changed: Callable[[], None] = lambda: None
    """Called after each change, so that whoever looks at the run sees it."""
    _decided: dict[str, Decision] = field(default_factory=dict[str, Decision])
    _said: dict[str, str] = field(default_factory=dict[str, str])
    """What was said of calls of the step that wait no more, in words."""
    _being_settled: set[str] = field(default_factory=set[str])

    def ask(self, *waiting: Waiting) -> None:
        """Let calls wait."""
        if waiting:
            self.shown.update({each.call: each for each in waiting})
            self.changed()

    def refusal(self, said: Said, kind: WaitKind) -> str | None:
        """Say why what a person says cannot be taken; None if it can."""
        waiting = self.shown.get(said.call)
        if waiting is None:
            calls = ", ".join(f"{each.call} ({each.kind})" for each in self.shown.values())
            known = f" ({self._said[said.call]})" if said.call in self._said else ""
            return (
                f"call {said.call!r} does not wait for a person{known}; waiting: {calls or 'none'}"
            )
        if waiting.kind != kind:
            return f"call {said.call} {_WHAT_TO_SAY[waiting.kind]}"
        if said.view and said.view != waiting.view:
            return (
                f"call {said.call} is not what you saw ({said.view!r}, and it is "
                f"{waiting.view!r} now). Look at `status` again"
            )
        if said.call in self._being_settled:
            return f"somebody is settling call {said.call} right now. Look at `status` again"
        return None

    def begin_settling(self, call: str) -> None:
        """Refuse others while what one person said is carried out."""
        self._being_settled.add(call)

    def end_settling(self, call: str) -> None:
        """It is carried out, or was refused."""
        self._being_settled.discard(call)

    def decide(self, call: str, decision: Decision) -> Waiting:
        """Take a decision; returns what it was about."""
        waiting = self.shown.pop(call)
        self._decided[call] = decision
        self._said[call] = _in_words(waiting, decision)
        self.changed()
        return waiting

    def decided(self, call: str) -> bool:
        """Somebody has decided about the call."""
        return call in self._decided

    def take(self, call: str) -> Decision:
        """Return the decision, once."""
        return self._decided.pop(call)

    def known(self, call: str) -> bool:
        """The call waits, or somebody has decided about it."""
        return call in self.shown or call in self._decided

    def of_kind(self, kind: type[D]) -> dict[str, D]:
        """Return the decisions of one kind that nobody has acted on, by call."""
        return {call: said for call, said in self._decided.items() if isinstance(said, kind)}

    def resume(self, waiting: Iterable[Waiting], decided: Mapping[str, Decision]) -> None:
        """Take over what another workflow run of the chain was waiting for."""
        self.shown = {each.call: each for each in waiting}
        self._decided = dict(decided)

    def drop(self, name: str) -> None:
        """Forget what nobody needs to decide any more."""
        if self.shown.pop(name, None):
            self.changed()

    def clear(self) -> None:
        """Forget all calls: none of them will run any more."""
        self._said.clear()
        if self.shown or self._decided:
            self.shown.clear()
            self._decided.clear()
            self.changed()


def _in_words(waiting: Waiting, decision: Decision) -> str:
    if isinstance(decision, Resolution):
        return f"its doubt was settled: {decision.verdict}"
    what = "approved" if isinstance(decision, Approval) else "denied"
    return f"{waiting.tool} was {what} by {decision.by or 'somebody'} already"
