"""The audit: the books of both other sides against what the workflows' results say was told.

A doubt must be explained by a fault of the right kind that struck between the call's witness (the
reply that asks for it) and its record; the times of both are in the run's history.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chaos.conversations import PlannedCall
from chaos.nemesis import Struck
from chaos.plan import Fault
from chaos.traffic import Run

Span = tuple[float, float]
"""In it a call got its witness and then its record, Unix seconds; see `Spans`."""
Told = Literal["done", "failed", "unknown", "not run", "nothing"]

_UNKNOWN = re.compile(r"OUTCOME UNKNOWN: .*? \((?P<why>.*?)\)\. Do not repeat", re.DOTALL)


@dataclass(frozen=True)
class Evidence:
    """All that the audit looks at."""

    runs: Sequence[Run]
    refunds: Mapping[str, Sequence[str]]
    """By order, the ids of all refunds that were made, whoever made them."""
    spans: Mapping[str, Span]
    """Of each order in doubt."""
    struck: Sequence[Struck]


@dataclass(frozen=True)
class CallSeen:
    """One call, from both sides."""

    call: PlannedCall
    told: Told
    why: str
    """Of a doubt."""
    refund: str
    """Id of the refund that Claude was told of."""
    made: Sequence[str]
    """Ids of the refunds in the books."""


@dataclass
class Verdict:
    """What the audit found."""

    duplicates: int = 0
    """Effects beyond the first of a call."""
    lost: int = 0
    """Calls told done whose effect is not in the books, calls without a word, runs without end."""
    falsely_failed: int = 0
    """Calls told failed, or not run, whose effect is in the books all the same."""
    doubts: int = 0
    doubts_unexplained: int = 0
    doubts_by_why: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[str] = field(default_factory=list[str])
    """Each in a sentence."""


def audit(evidence: Evidence) -> Verdict:
    """Judge every call of every run."""
    verdict = Verdict()
    for run in evidence.runs:
        _judge_end(verdict, run)
        for seen in calls_seen(run, evidence.refunds):
            _judge_count(verdict, seen)
            _judge_word(verdict, seen)
            if seen.told == "unknown":
                _judge_doubt(verdict, seen, evidence)
    return verdict


def calls_seen(run: Run, refunds: Mapping[str, Sequence[str]]) -> Iterator[CallSeen]:
    """Put beside each other what Claude was told of each call and what the books hold."""
    report: dict[str, Any] = json.loads(run.completed.text) if run.completed else {}
    for call in run.conversation.calls:
        told, why, refund = _told(report.get(call.order))
        yield CallSeen(call, told, why, refund, refunds.get(call.order, ()))


def _told(result: Mapping[str, Any] | None) -> tuple[Told, str, str]:
    """Read a tool's result: what it means, why it is unknown, which refund it names."""
    if result is None:
        return "nothing", "", ""
    text = str(result["text"])
    if unknown := _UNKNOWN.match(text):
        return "unknown", unknown["why"], ""
    if result["is_error"]:
        return "not run" if text.startswith("not run") else "failed", "", ""
    return "done", "", str(json.loads(text).get("refund", ""))


def _judge_end(verdict: Verdict, run: Run) -> None:
    if run.completed is None:
        verdict.lost += 1
        verdict.problems.append(f"lost: {run}")


def _judge_count(verdict: Verdict, seen: CallSeen) -> None:
    if len(seen.made) > 1:
        verdict.duplicates += len(seen.made) - 1
        _problem(verdict, "duplicate", seen)


def _judge_word(verdict: Verdict, seen: CallSeen) -> None:
    has_effect = seen.call.effect != "read"
    unfulfilled = seen.told == "done" and has_effect and seen.refund not in seen.made
    if seen.told == "nothing" or unfulfilled:
        verdict.lost += 1
        _problem(verdict, "lost", seen)
    if seen.told in {"failed", "not run"} and seen.made:
        verdict.falsely_failed += 1
        _problem(verdict, "happened all the same", seen)


def _judge_doubt(verdict: Verdict, seen: CallSeen, evidence: Evidence) -> None:
    verdict.doubts += 1
    verdict.doubts_by_why[seen.why] = verdict.doubts_by_why.get(seen.why, 0) + 1
    span = evidence.spans.get(seen.call.order)
    if span is None or not any(explains(struck, seen.why, span) for struck in evidence.struck):
        verdict.doubts_unexplained += 1
        _problem(verdict, "unexplained doubt", seen)


def explains(struck: Struck, why: str, span: Span) -> bool:
    """Say whether a fault can have made a doubt of that kind, between witness and record."""
    began, ended = span
    return struck.began <= ended and struck.ended >= began and _can_make(struck.fault, why)


def _can_make(fault: Fault, why: str) -> bool:
    if why == "records_lost":
        return fault.kind == "flush"
    if why == "owner_lost":
        # Killed, paused, or kept from renewing its lease or from hearing that it has the claim.
        return fault.kind != "flush" and fault.target != "payments"
    # An error of the tool's, or an attempt that was interrupted while it ran.
    return fault.target == "payments" or fault.target.startswith("worker")


def _problem(verdict: Verdict, what: str, seen: CallSeen) -> None:
    call, why = seen.call, f" ({seen.why})" if seen.why else ""
    verdict.problems.append(
        f"{what}: {call.order}, {call.tool} ({call.effect}): told {seen.told}{why} "
        f"{seen.refund}, books {list(seen.made)}"
    )
