"""What a chaos run says at its end: one JSON object, or the same for people."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.audit import Evidence, Verdict
from chaos.conversations import TOOLS
from chaos.nemesis import Struck
from onward.console import Output

_SHOWN_PROBLEMS = 20


@dataclass(frozen=True)
class Report:
    """The fields are the keys of `--json`."""

    runs: int
    calls: int
    effects: int
    """Refunds in the books."""
    kills: int
    """SIGKILLs, of workers and servers."""
    faults: int
    """All that struck, kills among them."""
    duplicates: int
    lost: int
    falsely_failed: int
    """Told failed or not run, and happened all the same."""
    doubts: int
    doubts_unexplained: int
    ok: bool
    seed: int
    minutes: float
    seconds: float
    """Until the last run had ended."""
    workers: int
    effects_by_class: dict[str, int]
    faults_by_kind: dict[str, int]
    doubts_by_why: dict[str, int]
    problems: list[str] = field(default_factory=list[str])


def report(
    evidence: Evidence,
    verdict: Verdict,
    surprises: Sequence[str],
    *,
    seed: int,
    minutes: float,
    seconds: float,
    workers: int,
) -> Report:
    """Count everything."""
    problems = [*verdict.problems, *surprises]
    kinds = Counter(_kind(struck) for struck in evidence.struck)
    classes = _effects_by_class(evidence)
    return Report(
        runs=len(evidence.runs),
        calls=sum(len(list(run.conversation.calls)) for run in evidence.runs),
        effects=sum(classes.values()),
        kills=sum(struck.fault.kind == "kill" for struck in evidence.struck),
        faults=len(evidence.struck),
        duplicates=verdict.duplicates,
        lost=verdict.lost,
        falsely_failed=verdict.falsely_failed,
        doubts=verdict.doubts,
        doubts_unexplained=verdict.doubts_unexplained,
        ok=not problems,
        seed=seed,
        minutes=minutes,
        seconds=round(seconds, 1),
        workers=workers,
        effects_by_class=classes,
        faults_by_kind=dict(sorted(kinds.items())),
        doubts_by_why=verdict.doubts_by_why,
        problems=problems,
    )


def _kind(struck: Struck) -> str:
    return f"{struck.fault.kind} {struck.fault.target.partition(' ')[0]}"


def _effects_by_class(evidence: Evidence) -> dict[str, int]:
    made = Counter[str]()
    for run in evidence.runs:
        for call in run.conversation.calls:
            made[call.effect] += len(evidence.refunds.get(call.order, ()))
    return {cls: made[cls] for cls in TOOLS.values() if cls != "read"}


def show(found: Report, output: Output) -> None:
    """Say it for people."""
    output.facts(_facts(found))
    for problem in found.problems[:_SHOWN_PROBLEMS]:
        output.result(f"WRONG  {problem}")
    if more := len(found.problems[_SHOWN_PROBLEMS:]):
        output.result(f"WRONG  and {more} more")
    output.result("The audit holds." if found.ok else "The audit FAILS.")


def _facts(found: Report) -> list[tuple[str, str]]:
    unexplained = f"{found.doubts_unexplained} unexplained"
    return [
        ("runs", f"{found.runs:,} with {found.calls:,} calls, in {found.seconds} s"),
        ("effects", f"{found.effects:,}: {_listed(found.effects_by_class)}"),
        ("faults", f"{found.faults:,}: {_listed(found.faults_by_kind)}"),
        ("duplicates", str(found.duplicates)),
        ("lost", str(found.lost)),
        ("false no", f"{found.falsely_failed} told failed or not run, and happened all the same"),
        ("in doubt", f"{found.doubts}, {unexplained}: {_listed(found.doubts_by_why)}"),
        ("seed", str(found.seed)),
    ]


def _listed(counts: dict[str, Any]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"
