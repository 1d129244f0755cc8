"""What a crash test found: a verdict for each trial, and what to do."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from onward.messages import EffectClass
from onward.testing.crash_test.advice import advice
from onward.testing.crash_test.scripted_run import Told
from onward.testing.crash_test.trial import Outcome
from onward.testing.crash_test.verdict import PROMISES, Problem, judge


@dataclass(frozen=True)
class TrialReport:
    """One trial and its verdict."""

    fault: str
    """In words."""
    point: str
    """`f1` to `f12`, `line`, `moment`; empty without a fault."""
    action: str
    struck: bool
    """False: the call never passed the point."""
    effects: int
    """By the probe."""
    told: Told
    """What Claude was told."""
    problem: Problem | None
    """How the promise was broken; None: it held."""
    todo: str
    """What to do about it."""
    took_s: float

    def __str__(self) -> str:
        return f"{self.fault}: {self.effects} effects, told {self.told}: {self.verdict}"

    @property
    def verdict(self) -> str:
        """Whether the promise held, in words."""
        verdict = "held" if self.problem is None else f"broken ({self.problem})"
        return verdict if self.struck else f"{verdict}, not reached"


@dataclass(frozen=True)
class CrashReport:
    """All trials of one tool."""

    tool: str
    effect: EffectClass
    trials: tuple[TrialReport, ...]
    unreached: tuple[str, ...] = ()
    """Points that this tool does not pass."""

    @property
    def held(self) -> bool:
        """The class's promise held in every trial."""
        return not self.broken

    @property
    def broken(self) -> tuple[TrialReport, ...]:
        """Trials in which it did not."""
        return tuple(trial for trial in self.trials if trial.problem)

    @property
    def promise(self) -> str:
        """What the class promises."""
        return PROMISES[self.effect]

    @property
    def todo(self) -> tuple[str, ...]:
        """What to do, each thing once."""
        return tuple(dict.fromkeys(trial.todo for trial in self.broken))

    def assert_held(self) -> None:
        """Raise AssertionError that says what was promised, what was found and what to do."""
        if self.broken:
            raise AssertionError("\n".join([*self.summary(), *map(str, self.broken)]))

    def summary(self) -> list[str]:
        """Say whether the promise held, what it was and what to do, a line each."""
        verdict = "held in all" if self.held else f"was broken in {len(self.broken)}"
        head = f"{self.tool} ({self.effect}): its promise {verdict} of {len(self.trials)} trials"
        todo = [f"to do     {text}" for text in self.todo]
        return [head, f"promised  {self.promise}", *todo]

    def document(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {"held": self.held, "promise": self.promise, "todo": self.todo} | asdict(self)


def report_of(tool: str, effect: EffectClass, outcomes: Sequence[Outcome]) -> CrashReport:
    """Judge every trial."""
    return CrashReport(tool, effect, tuple(_judged(effect, outcome) for outcome in outcomes))


def _judged(effect: EffectClass, outcome: Outcome) -> TrialReport:
    problem = judge(effect, outcome)
    return TrialReport(
        fault=str(outcome.fault),
        point=outcome.fault.point,
        action=outcome.fault.action,
        struck=outcome.struck,
        effects=outcome.effects,
        told=outcome.answer.told,
        problem=problem,
        todo=advice(effect, outcome, problem) if problem else "",
        took_s=round(outcome.took_s, 2),
    )
