"""Calls that ran as a person edited them: Claude's reply, which is never changed, does not tell."""

from collections.abc import Mapping
from typing import Any

from onward.messages import ClaudeReply, Edited, HalfStep, PreparedCall, ToolInput, Wire
from onward.wording import edited_note


class EditedCall(Wire):
    """A call as it was run."""

    call: PreparedCall
    input: str
    """What a person gave it in place of Claude's, JSON text."""

    @property
    def note(self) -> str:
        """What Claude is told before its result."""
        return edited_note(self.input)


class Edits:
    """Hears of edits in a history. One counts when its call is run: until then, it may be dropped.

    The person who edited a call may have found it denied, or its run cancelled, meanwhile.
    """

    def __init__(self) -> None:
        self._judged = dict[tuple[str, str], PreparedCall]()

    def judged(self, edited: Edited) -> None:
        """Take how an edit was judged."""
        if edited.call is not None:
            self._take(edited.call)

    def carried(self, half: HalfStep | None) -> None:
        """Take what an earlier workflow run of the chain had judged."""
        for call in half.reply.calls if half else ():
            self._take(call)

    def ran(self, given: ToolInput) -> EditedCall | None:
        """Return the call that is run so; None where it is run as Claude asked for it."""
        call = self._judged.get((given.call, given.fingerprint))
        return EditedCall(call=call, input=given.edit) if call and given.edit else None

    def _take(self, call: PreparedCall) -> None:
        self._judged[call.call, call.fingerprint] = call


def as_run(reply: ClaudeReply, edits: Mapping[str, EditedCall]) -> ClaudeReply:
    """Return a reply with its calls as they were run; its message stays Claude's."""
    if not any(call.call in edits for call in reply.calls):
        return reply
    calls = (edits[call.call].call if call.call in edits else call for call in reply.calls)
    return reply.model_copy(update={"calls": tuple(calls)})


def edits_of(packed: Mapping[str, Any]) -> dict[str, EditedCall]:
    """Read edits from plain JSON values, by call. Raises `ValueError`."""
    return {call: EditedCall.model_validate(each) for call, each in packed.items()}
