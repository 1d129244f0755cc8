"""Where the conversation of a run is cut for a fork."""

from collections.abc import Iterator
from dataclasses import dataclass

from onward.errors import UsageError
from onward.messages import PreparedCall, Witness
from onward.retelling.steps import Retelling, Step
from onward.transcript import is_summary

WitnessedCall = tuple[PreparedCall, Witness]
"""A call, and the witness that it was to be claimed under."""


@dataclass(frozen=True)
class Cut:
    """A conversation up to a step."""

    retelling: Retelling
    copied: tuple[Step, ...]

    @property
    def last(self) -> Step:
        """The last step that is copied, a summary after it left out of account."""
        return next(step for step in reversed(self.copied) if not is_summary(step.id))

    @property
    def at_end(self) -> bool:
        """All of the conversation is copied."""
        return len(self.copied) == len(self.retelling.steps)

    @property
    def open_ended(self) -> bool:
        """Claude waits for results, or was paused: it need not be told anything else."""
        return bool(self.last.tool_uses) or self.last.reply.stop_reason == "pause_turn"

    def calls(self) -> Iterator[WitnessedCall]:
        """Go through the calls of the last copied step."""
        yield from _calls(self.last)

    def later_effects(self) -> Iterator[WitnessedCall]:
        """Go through the calls after it that had an effect, if they ran."""
        for step in self.retelling.steps[len(self.copied) :]:
            yield from ((call, witness) for call, witness in _calls(step) if call.effect != "read")


def cut(retelling: Retelling, run_id: str, number: int | None) -> Cut:
    """Cut after the step of that number; None: at the end.

    Raises UsageError where there is no such step.
    """
    last = retelling.last.number
    if number is not None and not 0 < number <= last:
        raise UsageError(
            f"the conversation of run {run_id!r} has no step {number}: its last one is {last}. "
            "`transcript` shows its steps"
        )
    copied = (s for s in retelling.steps if number is None or s.number <= number)
    return Cut(retelling, tuple(copied))


def _calls(step: Step) -> Iterator[WitnessedCall]:
    # The calls' witness is that of their reply, whatever was refilled since (ledger.md, 1.3).
    yield from ((call, step.reply.witness) for call in step.reply.calls)
