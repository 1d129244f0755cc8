"""Print an audit: for people a paragraph an effect, for programs one document."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from onward.audit.comparing import Difference
from onward.audit.decisions import Decision
from onward.audit.effects import Effect
from onward.console import Output
from onward.figures import count
from onward.invoked import typed
from onward.messages import Fork
from onward.runs import Run
from onward.tags import as_texts
from onward.wording import in_words

_SHORT = 12


@dataclass(frozen=True)
class Report:
    """What an audit found."""

    run: Run
    effects: list[Effect]
    unknown: list[str]
    parent: Fork | None = None
    """The run that this one is a fork of."""
    copied_steps: int = 0
    differences: list[Difference] = field(default_factory=list[Difference])
    compared: int | None = None
    """Ends in history that were compared with the ledger; None: nothing was compared."""

    @property
    def verified(self) -> bool | None:
        """History and ledger agree; None: they were not compared."""
        return None if self.compared is None else not self.differences


def show(report: Report, out: Output) -> None:
    """Print it."""
    if out.as_json:
        out.json(_document(report))
        return
    for effect in report.effects:
        # In a line each: what somebody claims to be called cannot pass for a fact of ours.
        out.facts((name, " ".join(value.splitlines())) for name, value in _facts(effect))
        out.result("")
    out.result(_total(report.effects, f"of run {report.run.id}"))
    if report.parent:
        out.result(_parent(report.parent, report.copied_steps))
    for sentence in report.unknown:
        out.result(f"not known: {sentence}")
    for difference in report.differences:
        out.result(f"differs: {difference}")
    if report.verified:
        ends = count(report.compared or 0, "record")
        out.result(f"verified: {ends} of the ledger agree with the event history")


def show_all(reports: Sequence[Report], tags: Mapping[str, str], out: Output) -> None:
    """Print those of all runs with these tags, and their sum."""
    every = [effect for report in reports for effect in report.effects]
    if out.as_json:
        runs = [_document(report) for report in reports]
        outcomes = Counter(effect.outcome for effect in every)
        out.json({"tags": {**tags}, "runs": runs, "calls": len(every), "outcomes": outcomes})
        return
    for report in reports:
        show(report, out)
        out.result("")
    out.result(_total(every, f"of {count(len(reports), 'run')} with {', '.join(as_texts(tags))}"))


# ---- for people


def _total(effects: Sequence[Effect], of: str) -> str:
    outcomes = Counter(effect.outcome for effect in effects)
    each = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    total = f"{count(len(effects), 'call')} {of}"
    return f"{total}: {each}" if each else total


def _parent(parent: Fork, steps: int) -> str:
    said = f"copied: {count(steps, 'step')} of run {parent.workflow_id} ({parent.run_id})"
    return f"{said}; what their calls did is in `{typed('audit', parent.workflow_id)}`"


def _facts(effect: Effect) -> Iterator[tuple[str, str]]:
    yield "call", f"{effect.call} {effect.tool or '(its reply is lost)'}"
    yield "outcome", _outcome(effect)
    yield "class", effect.effect
    yield "Claude asked for", effect.asked_for
    yield "input", f"{effect.fingerprint[:_SHORT]}…  {effect.summary}"
    yield "key", effect.key
    yield "tried", ", ".join(_tried(effect))
    for decision in effect.decisions:
        if decision.doubt:
            yield "was in doubt", in_words(decision.doubt)
        yield decision.what, f"{_local(decision.at)} {_who(decision)}"
    yield "times", ", ".join(_times(effect))
    yield "noted", "; ".join(_notes(effect))


def _who(decision: Decision) -> str:
    if decision.expired:
        return "because nobody had decided in time"
    said = f": {decision.said}" if decision.said else ""
    edit = f", with another input: {decision.edit}" if decision.edit else ""
    alike = ", and those like it" if decision.remember else ""
    return f"by {decision.by or 'somebody'}, as their client claimed{said}{edit}{alike}"


def _outcome(effect: Effect) -> str:
    # What Claude was told of a call that was not run says so itself.
    if not effect.why or effect.why.startswith(effect.outcome):
        return effect.why or effect.outcome
    return f"{effect.outcome}: {in_words(effect.why)}"


def _tried(effect: Effect) -> Iterator[str]:
    if effect.claims is not None:
        where = _since_retry(effect) or " in the ledger"
        yield f"{count(effect.claims, 'claim')}{where}"
    if effect.attempts:
        yield f"{count(effect.attempts, 'attempt')} by Temporal"


def _times(effect: Effect) -> Iterator[str]:
    moments = (effect.scheduled, effect.first_claim, effect.ended)
    names = ("scheduled", f"first claimed{_since_retry(effect)}", "ended")
    for name, at in zip(names, moments, strict=True):
        if at is not None:
            yield f"{name} {_local(at)}"


def _since_retry(effect: Effect) -> str:
    return " since the retry" if effect.claims_since else ""


def _notes(effect: Effect) -> Iterator[str]:
    if effect.first_call:
        yield f"not done again: first done by {effect.first_call}"
    if not effect.recorded:
        yield "the ledger could not be told of its end; history is the record"
    if effect.known_by == ("ledger",):
        yield "only the ledger knows it, this history does not"


def _local(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


# ---- for programs


def _document(report: Report) -> dict[str, Any]:
    run = report.run
    return {
        "run": run.id,
        "run_id": run.run_id,
        "status": run.status,
        "parent": report.parent and report.parent.model_dump(mode="json"),
        "copied_steps": report.copied_steps,
        "effects": [_row(effect) for effect in report.effects],
        "verified": report.verified,
        "compared": report.compared,
        "differences": [_difference(each) for each in report.differences],
        "unknown": report.unknown,
    }


def _row(effect: Effect) -> dict[str, Any]:
    row = asdict(effect)
    row["class"] = row.pop("effect")
    business = row.pop("business")
    row["business_key"] = business and business.model_dump(mode="json")
    row["decisions"] = [
        {
            "what": decision.what,
            "by_as_claimed": decision.by,
            "at": decision.at.isoformat(),
            "said": decision.said,
            "doubt": decision.doubt,
            "edit": decision.edit,
            "remember": decision.remember,
            "expired": decision.expired,
        }
        for decision in effect.decisions
    ]
    moments = ("scheduled", "first_claim", "ended")
    times = {f"{name}_at": row.pop(name) for name in moments} | {
        "claims_since": row["claims_since"]
    }
    return row | {name: at and at.isoformat() for name, at in times.items()}


def _difference(difference: Difference) -> dict[str, str]:
    return {**asdict(difference), "text": str(difference)}
