"""What lists tell of runs: rows for people, JSON documents for programs."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from onward.documents import age_s, what_and_why
from onward.figures import duration, money, when
from onward.invoked import program, typed
from onward.messages import Paused, Waiting
from onward.runs import Run
from onward.tags import as_texts
from onward.wording import how_to_answer

COLUMNS = ("run", "status", "agent", "step", "cost", "started", "took", "tags, prompt")
WAITING_COLUMNS = ("run", "call", "asks for", "since", "tool", "what, and why")


def row(run: Run) -> tuple[str, ...]:
    """Describe a run in a row of `list`."""
    step = "" if run.indexed.step is None else str(run.indexed.step)
    times = (when(run.started), duration(age_s(run)))
    about = " ".join((*as_texts(run.tags), *run.prompt.split()))
    return (run.id, _state(run), run.agent, step, _cost(run), *times, about)


def waiting_row(run: Run, call: Waiting) -> tuple[str, ...]:
    """Describe a call that waits in a row of `list --waiting`."""
    since = _since(call.since_ms)
    return (run.id, call.call, call.kind, since, call.tool, what_and_why(call))


def paused_row(run: Run, paused: Paused) -> tuple[str, ...]:
    """Describe a run that a person paused in a row of `list --waiting`."""
    why = ": ".join(filter(None, (f"by {paused.by or 'somebody'}", paused.reason)))
    return (run.id, "", "paused", _since(paused.since_ms), "", why)


def unanswered_row(run: Run) -> tuple[str, ...]:
    """Describe a run that nobody could ask what it waits for in a row of `list --waiting`."""
    return (run.id, "", run.waits_for or "not known", "", "", "its worker does not answer")


def call_answer(run: Run, call: Waiting) -> str:
    """Say what settles a call that waits."""
    return how_to_answer(run.id, call, program())


def paused_answer(run: Run) -> str:
    """Say what lets a paused run go on."""
    return f"Let it go on with `{typed('resume', run.id)}`"


def waiting_document(run: Run, call: Waiting) -> dict[str, Any]:
    """Describe a call that waits as `list --waiting --json` does."""
    told = {"agent": run.agent, "tags": {**run.tags}, "answer": call_answer(run, call)}
    return {"run": run.id, "run_id": run.run_id, **call.model_dump(mode="json"), **told}


def paused_document(run: Run, paused: Paused) -> dict[str, Any]:
    """Describe a run that a person paused as `list --waiting --json` does."""
    told = {"agent": run.agent, "tags": {**run.tags}, "answer": paused_answer(run)}
    return {"run": run.id, "run_id": run.run_id, **paused.model_dump(mode="json"), **told}


def _state(run: Run) -> str:
    return f"{run.state} ({run.waits_for})" if run.state == "waiting" else run.state


def _cost(run: Run) -> str:
    cost = run.indexed.cost_usd
    return "" if cost is None else money(Decimal(str(cost)))


def _since(since_ms: int) -> str:
    return when(datetime.fromtimestamp(since_ms / 1000, UTC))
