"""What commands tell of a run: JSON documents for programs, and the same for people."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from onward.figures import count, duration, spend_line, when
from onward.history import Ended
from onward.invoked import program, typed
from onward.limits.use import limit_uses
from onward.messages import PersonSaid, Waiting
from onward.reports import Report
from onward.runs import FAILING, Run
from onward.starting import Started
from onward.tags import as_texts
from onward.watching import Beginning
from onward.wording import how_full, how_to_answer, paused_text

_SHOWN_CHARS = 80


def run_document(run: Run) -> dict[str, Any]:
    """Describe a run as `list --json` does."""
    return {
        "run": run.id,
        "run_id": run.run_id,
        "status": run.state,
        "temporal_status": run.status,
        "outcome": run.outcome or None,
        "waits_for": run.waits_for or None,
        "reset": run.reset,
        "agent": run.agent,
        "tags": {**run.tags},
        "model": run.indexed.model or None,
        "steps": run.indexed.step,
        "tokens": run.indexed.tokens,
        "cost_usd": run.indexed.cost_usd,
        "prompt": run.prompt,
        "started": run.started.isoformat(),
        "closed": run.closed.isoformat() if run.closed else None,
    }


def result_document(run: Run, done: Ended) -> dict[str, Any]:
    """Describe an ended run as `result --json` does."""
    return {
        "run": run.id,
        "run_id": run.run_id,
        **done.result.model_dump(mode="json"),
        "spend_complete": done.spend_complete,
    }


def status_document(seen: Report, troubles: tuple[str, ...]) -> dict[str, Any]:
    """Describe how a run goes as `status --json` does."""
    return {
        **run_document(seen.run),
        **seen.status.model_dump(mode="json"),
        "live": seen.live,
        "troubles": troubles,
    }


def start_document(
    started: Started, begun: Beginning, troubles: Sequence[str], ui_link: str | None
) -> dict[str, Any]:
    """Describe a run just started or attached to as `start --json` does."""
    opening, done = begun.opening, begun.ended
    return {
        "run": begun.run.id,
        "run_id": begun.run.run_id,
        "how": started.how,
        "ui_url": ui_link,
        "limits": opening.limits.model_dump(mode="json") if opening else None,
        "price_known": opening.price_known if opening else None,
        "outcome": done.result.outcome if done else None,
        "detail": done.result.detail if done else "",
        "troubles": troubles,
    }


def status_facts(seen: Report, ui_link: str | None) -> list[tuple[str, str]]:
    """Describe how a run goes, for people."""
    run, now = seen.run, seen.status
    complete = seen.ended.spend_complete if seen.ended else seen.live
    return [
        ("run", run.id),
        ("agent", now.agent),
        ("state", _state(seen)),
        ("detail", seen.ended.result.detail if seen.ended else ""),
        ("step", now.step),
        ("doing", now.doing),
        ("started", when(run.started)),
        ("time", duration(age_s(run))),
        ("spend", spend_line(now.spend, complete=complete)),
        ("limits", ", ".join(use.said for use in limit_uses(now))),
        ("context", how_full(now.context) if now.context else ""),
        ("in doubt", ", ".join(now.in_doubt)),
        ("not seen by Claude", count(now.unseen, "message") if now.unseen else ""),
        ("tags", ", ".join(as_texts(run.tags))),
        ("paused", paused_text(now.paused).removeprefix("paused ") if now.paused else ""),
        *(fact for call in now.waiting for fact in _waiting_facts(run.id, call)),
        ("workspace", now.workspace.path if now.workspace else ""),
        ("prompt", run.prompt),
        ("see it at", ui_link or ""),
    ]


def waiting_line(run: str, call: Waiting) -> str:
    """Say what a call waits for, and what to type."""
    doubt = " is in doubt" if call.kind == "doubt" else ""
    what = f"{call.call} {call.tool} ({call.summary}){doubt}: {call.why}"
    if call.kind == "limit":
        what = f"it has met a limit ({call.tool}): {call.why}"
    return f"{what}. {how_to_answer(run, call, program())}"


def what_and_why(call: Waiting) -> str:
    """Say what would happen, and why a person is asked."""
    return call.why if call.kind == "limit" else f"{call.summary}: {call.why}"


def _waiting_facts(run: str, call: Waiting) -> tuple[tuple[str, str], ...]:
    return ("waits for you", waiting_line(run, call)), (f"input of {call.call}", call.input)


def _state(seen: Report) -> str:
    now = seen.status
    if seen.run.state in {"terminated", "timed_out", FAILING}:  # a list says so, too
        return seen.run.state
    if now.outcome or now.state != "waiting":
        return now.outcome or now.state
    kinds: set[str] = {call.kind for call in now.waiting} or {seen.run.waits_for}
    return f"waiting ({', '.join(sorted(kinds))})"


def age_s(run: Run) -> float:
    """Seconds from a run's start to its end, or to now."""
    return max(0.0, ((run.closed or datetime.now(UTC)) - run.started).total_seconds())


def unseen_lines(run: str, messages: Sequence[PersonSaid]) -> list[str]:
    """Say which messages of people Claude never saw, and what goes on with them."""
    if not messages:
        return []
    several = f"{len(messages):,} messages that people sent" if messages[1:] else "a message"
    said = f"Claude never saw {several}; `{typed('fork', run)}` goes on with what was said:"
    return [said, *(f"  {each.id}: {_first_line(each.text)}" for each in messages)]


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}…"
