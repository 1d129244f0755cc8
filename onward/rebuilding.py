"""What a history tells of each step and call, made into the records that the ledger should hold."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onward import transcript
from onward.edits import EditedCall
from onward.messages import (
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
from onward.run_records import Added
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
    """The records that one workflow run made, without those that it began from."""

    def __init__(self) -> None:
        self.prompt = ""
        """The run's, from its start event."""
        self._ends = dict[str, Restored]()
        self._turns = dict[str, str]()
        self._dropped = set[str]()
        self._edits = dict[str, EditedCall]()

    def added(self) -> Added:
        """Return what the workflow run added to the records of its chain."""
        dropped = sorted(self._dropped - self._ends.keys())
        return Added(self._ends, self._turns, tuple(dropped), self._edits)

    def begun(self, opening: Opening) -> None:
        """Take the beginning."""
        text = opening.model_dump_json()
        self._ends[BEGINNING] = Restored(st="done", fp=BEGINNING, cls="read", result=text)

    def lacking(self, given: ClaudeInput) -> list[str]:
        """Name the calls whose results a step was told of, and which ended before."""
        return [call for call in _told(given) if call not in self._ends]

    def replied(
        self, given: ClaudeInput, reply: ClaudeReply, earlier: Mapping[str, Restored]
    ) -> None:
        """Take a reply, and the results of the calls that were run with it.

        `earlier`: how the calls ended that are `lacking`.
        """
        adopted = Turn.model_validate_json(reply.turn) if reply.turn else None
        turn = adopted or self._turn(given, earlier)
        self._turns[given.step] = turn.model_dump_json()
        self._ends[given.step] = Restored(
            st="done", fp=given.head.digest, cls="read", result=reply.record()
        )
        for call, result in zip(reply.calls, reply.results, strict=False):
            if result is not None:
                self.called(Asked.of(call, given.run.workflow_id), result)

    def edited(self, ran: EditedCall) -> None:
        """Take a call that a person edited, when it is run."""
        self._edits[ran.call.call] = ran

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
        self._drop(asked.call)
        self._free(asked.business)

    def _turn(self, given: ClaudeInput, earlier: Mapping[str, Restored]) -> Turn:
        ends = {call: self._ends.get(call) or earlier.get(call) for call in _told(given)}
        results = {
            call: CallResult.model_validate_json(end.result)
            for call, end in ends.items()
            if end and end.result is not None
        }
        return transcript.build_turn(given.additions, results, self.prompt)

    def _keep(self, asked: Asked, record: Restored) -> None:
        ends = self._ends
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
        held = self._ends.get(key.position) if key else None
        if key and (held is None or held.st == "doubt"):
            self._drop(key.position)

    def _drop(self, position: str) -> None:
        self._ends.pop(position, None)
        self._dropped.add(position)


def _told(given: ClaudeInput) -> list[str]:
    return [item.call for item in given.additions if isinstance(item, ResultOf)]


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
