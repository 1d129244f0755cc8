"""What a history tells of each step and call, made into the records that the ledger should hold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onward import transcript
from onward.messages import (
    Addition,
    BusinessKey,
    CallResult,
    ClaudeInput,
    ClaudeReply,
    EffectClass,
    Opening,
    PreparedCall,
    ResolveInput,
    ResultOf,
    ToolInput,
)
from onward.records import Ending, Restored
from onward.run_records import RunRecords
from onward.transcript import BEGINNING, Turn


@dataclass(frozen=True)
class Asked:
    """A call, as its records name it."""

    call: str
    fingerprint: str
    effect: EffectClass
    business: BusinessKey | None
    workflow_id: str

    @classmethod
    def of(cls, given: ToolInput | ResolveInput | PreparedCall, workflow_id: str) -> "Asked":
        """Name the call of an activity's input, or of a reply."""
        return cls(given.call, given.fingerprint, given.effect, given.business, workflow_id)


class Rebuilding:
    """Begins from what earlier workflow runs of the chain added; `prompt` is in the start event."""

    def __init__(self, earlier: RunRecords, prompt: str = "") -> None:
        self.records = earlier.copy()
        self._prompt = prompt

    def begun(self, opening: Opening) -> None:
        """Take the beginning."""
        text = opening.model_dump_json()
        self.records.ends[BEGINNING] = Restored(st="done", fp=BEGINNING, cls="read", result=text)

    def replied(self, given: ClaudeInput, reply: ClaudeReply) -> None:
        """Take a reply, and the results of the calls that were run with it."""
        adopted = Turn.model_validate_json(reply.turn) if reply.turn else None
        turn = adopted or self._turn(given.additions)
        self.records.turns[given.step] = turn.model_dump_json()
        self.records.ends[given.step] = Restored(
            st="done", fp=given.head.digest, cls="read", result=reply.record()
        )
        for call, result in zip(reply.calls, reply.results, strict=False):
            if result is not None:
                self.called(Asked.of(call, given.run.workflow_id), result)

    def called(self, asked: Asked, result: CallResult) -> None:
        """Take how a call ended."""
        end = _doubt(asked, result) if result.status == "in_doubt" else _ended(asked, result)
        self._keep(asked, end)

    def settled(self, asked: Asked, result: CallResult | None) -> None:
        """Take what a person found out of a call in doubt; None: it is tried again."""
        if result is not None:
            self._keep(asked, _ended(asked, result))
            return
        # Its last word is no end.
        self.records.ends.pop(asked.call, None)
        self._free(asked.business)

    def _turn(self, additions: Sequence[Addition]) -> Turn:
        named = [item.call for item in additions if isinstance(item, ResultOf)]
        ends = {call: self.records.ends[call] for call in named if call in self.records.ends}
        results = {
            call: CallResult.model_validate_json(end.result)
            for call, end in ends.items()
            if end.result is not None
        }
        return transcript.build_turn(additions, results, self._prompt)

    def _keep(self, asked: Asked, record: Restored) -> None:
        ends = self.records.ends
        ends[asked.call] = record
        key = asked.business
        if key is None or key.everywhere:
            return
        # What the call asked for has its own record; a later call that only repeated it has none,
        # and one that was refused left it free.
        if record.st == "failed":
            self._free(key)
        elif key.position not in ends or ends[key.position].st == "doubt":
            ends[key.position] = _of_key(asked, key.position, record)

    def _free(self, key: BusinessKey | None) -> None:
        # Not what an earlier call did: this one may have ended before it was told of that.
        held = self.records.ends.get(key.position) if key else None
        if key and held and held.st == "doubt":
            del self.records.ends[key.position]


def _ended(asked: Asked, result: CallResult) -> Restored:
    status: Ending = "done" if result.status == "done" else "failed"
    return Restored(st=status, fp=asked.fingerprint, cls=asked.effect, result=result.record())


def _doubt(asked: Asked, result: CallResult) -> Restored:
    at_ms = result.at_ms or None
    return Restored(st="doubt", fp=asked.fingerprint, cls=asked.effect, why=result.why, at_ms=at_ms)


def _of_key(asked: Asked, position: str, record: Restored) -> Restored:
    if record.result is None:
        return replace(record, fp=position)
    result = CallResult.model_validate_json(record.result)
    named = result.model_copy(update={"first_call": f"{asked.workflow_id} {asked.call}"})
    return replace(record, fp=position, result=named.record())
