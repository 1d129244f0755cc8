"""What the demo prints at its end: one JSON object, or the same for people."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from onward.demo import audit
from onward.demo.audit import Evidence
from onward.demo.killer import Struck

_SHOWN_PROBLEMS = 12


@dataclass(frozen=True)
class Bill:
    """What only the run itself, or the server that keeps it, can tell."""

    steps: int
    spend: dict[str, Any]
    history_bytes: int | None = None
    workflow_id: str | None = None
    ui_url: str | None = None
    worker_starts_s: list[float] = field(default_factory=list[float])


@dataclass(frozen=True)
class Report:
    """The audit's result; its fields are the keys of `demo --json`."""

    ok: bool
    problems: list[str]
    steps: int
    files_changed: int
    edits: int
    kills: list[dict[str, Any]]
    resume_seconds: list[float | None]
    effects: dict[str, int]
    payment_requests: int
    claude_calls: dict[str, int]
    spend: dict[str, Any]
    history_bytes: int | None
    workflow_id: str | None
    ui_url: str | None
    worker_start_seconds: list[float]
    """How long each worker took until it polled: part of `resume_seconds`."""
    unprotected: bool
    seed: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return asdict(self)


def report(
    evidence: Evidence, bill: Bill, *, seed: int, unprotected: bool, seconds: float
) -> Report:
    """Audit the evidence."""
    problems = audit.problems(evidence)
    changed = {edit.path for edit in evidence.refactor.edits}
    return Report(
        ok=not problems,
        problems=problems,
        steps=bill.steps,
        files_changed=len(changed),
        edits=len(evidence.refactor.edits),
        kills=[_kill(struck, evidence) for struck in evidence.struck],
        resume_seconds=audit.resume_seconds(evidence),
        effects=asdict(audit.count_effects(evidence)),
        payment_requests=len(evidence.requests),
        claude_calls=asdict(audit.count_claude_calls(evidence)),
        spend=bill.spend,
        history_bytes=bill.history_bytes,
        workflow_id=bill.workflow_id,
        ui_url=bill.ui_url,
        worker_start_seconds=bill.worker_starts_s,
        unprotected=unprotected,
        seed=seed,
        seconds=round(seconds, 1),
    )


def _kill(struck: Struck, evidence: Evidence) -> dict[str, Any]:
    activity = audit.interrupted(struck, evidence)
    return {
        "place": struck.kill.place,
        "where": struck.where,
        "step": struck.step,
        "pid": struck.pid,
        "exit_status": struck.exit_status,
        "attempt": activity and activity.attempt,
        "attempted_by": activity and activity.identity,
    }


def lines(found: Report) -> Iterator[str]:
    """Say the same for people, a fact a line."""
    effects, calls = found.effects, found.claude_calls
    what = "a plain loop without Onward" if found.unprotected else "Onward"
    yield f"Audit of {what}, after {found.seconds} s"
    yield f"  steps      {found.steps}; {found.edits} edits in {found.files_changed} files"
    for kill, resumed in zip(found.kills, found.resume_seconds, strict=True):
        after = "nobody went on" if resumed is None else f"next request after {resumed} s"
        again = f", attempt {kill['attempt']} by another worker" if kill["attempt"] else ""
        yield f"  kill -9    {kill['where']}"
        yield f"             exit status {kill['exit_status']}, {after}{again}"
    if found.worker_start_seconds:
        yield f"  workers    ready after {', '.join(map(str, found.worker_start_seconds))} s"
    yield (
        f"  refunds    {effects['applied']} applied of {effects['expected']}, "
        f"{effects['duplicate']} duplicate, {effects['missing']} missing, "
        f"{effects['in_doubt']} in doubt ({found.payment_requests} requests)"
    )
    yield (
        f"  Claude     {calls['made']} requests for {calls['needed']} steps, "
        f"{calls['wasted']} paid twice"
    )
    if found.spend.get("cost_usd") is not None:
        yield f"  spend      ${found.spend['cost_usd']} (scripted tokens at list price)"
    if found.history_bytes is not None:
        yield f"  history    {found.history_bytes:,} bytes"
    yield from (f"  WRONG      {problem}" for problem in found.problems[:_SHOWN_PROBLEMS])
    if more := len(found.problems[_SHOWN_PROBLEMS:]):
        yield f"  WRONG      and {more} more"
    yield "The audit holds." if found.ok else "The audit FAILS."
