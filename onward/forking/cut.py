"""Where the conversation of a run is cut for a fork."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat

from onward.errors import UsageError
from onward.invoked import typed
from onward.messages import PreparedCall, Witness
from onward.retelling.steps import Block, Retelling, Step
from onward.transcript import is_summary


@dataclass(frozen=True)
class StepCall:
    """A call, as it stands in its step."""

    call: PreparedCall
    witness: Witness
    """That of its reply. A later one may vouch for a ledger that its claim was wiped from."""
    told: Block | None = None
    """The `tool_result` that was sent for it; None: none was yet, its step is not answered."""
    never_started: bool = False
    """History proves that no attempt at it was ever begun, and none will be."""

    @property
    def is_open(self) -> bool:
        """An attempt may still begin to act on it."""
        return self.told is None and self.call.effect != "read" and self.call.refusal is None


@dataclass(frozen=True)
class Cut:
    """A conversation up to a step."""

    retelling: Retelling
    copied: tuple[Step, ...]
    never_started: frozenset[str] = frozenset()
    """Calls that history proves were never begun; see `never_started.py`."""

    @property
    def last(self) -> Step:
        """The last step that is copied, a summary after it left out of account."""
        return next(step for step in reversed(self.copied) if not is_summary(step.id))

    @property
    def open_ended(self) -> bool:
        """Claude waits for results, or was paused: it need not be told anything else."""
        return bool(self.last.tool_uses) or self.last.reply.stop_reason == "pause_turn"

    def calls(self) -> Iterator[StepCall]:
        """Go through the calls of the last copied step."""
        yield from self._calls(self.last)

    def later_effects(self) -> Iterator[StepCall]:
        """Go through the calls after it that had an effect, if they ran."""
        yield from self._effects(self.retelling.steps[len(self.copied) :])

    def copied_effects(self) -> Iterator[StepCall]:
        """Go through the copied calls that had an effect, if they ran."""
        yield from self._effects(self.copied)

    def effects(self) -> Iterator[StepCall]:
        """Go through all calls of the conversation that had an effect, if they ran."""
        yield from self._effects(self.retelling.steps)

    def open_effects(self) -> Iterator[StepCall]:
        """Go through those that an attempt may still begin to act on."""
        for asked in self.effects():
            if asked.is_open and self.retelling.result(asked.call.call) is None:
                yield asked

    def _effects(self, steps: Iterable[Step]) -> Iterator[StepCall]:
        for step in steps:
            yield from (asked for asked in self._calls(step) if asked.call.effect != "read")

    def _calls(self, step: Step) -> Iterator[StepCall]:
        told = chain(step.answers or (), repeat(None))
        for call, block in zip(step.reply.calls, told, strict=False):
            never = call.call in self.never_started
            yield StepCall(call, step.reply.witness, block, never_started=never)


def cut(retelling: Retelling, run_id: str, number: int | None) -> Cut:
    """Cut after the step of that number; None: at the end.

    Raises UsageError where there is no such step.
    """
    last = retelling.last.number
    if number is not None and not 0 < number <= last:
        raise UsageError(
            f"the conversation of run {run_id!r} has no step {number}: its last one is {last}. "
            f"`{typed('transcript', run_id)}` shows its steps"
        )
    copied = (s for s in retelling.steps if number is None or s.number <= number)
    return Cut(retelling, tuple(copied))
