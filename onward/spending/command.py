"""Tell what a run cost, or many: gather it, and print it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from onward import reports
from onward.audit.positions import order
from onward.console import Output
from onward.errors import UsageError
from onward.figures import count
from onward.listing import Which
from onward.messages import Spend, Tally
from onward.reports import Spent
from onward.runs import Run
from onward.session import Session, find_run, open_session
from onward.spending.branches import Beyond, beyond, was_reset
from onward.spending.since import moment, summed
from onward.spending.steps import steps_of
from onward.spending.tables import COLUMNS, cells, facts, with_other
from onward.tags import as_texts, parse_tags

By = Literal["step", "model"]
_ALL_BRANCHES = "the run was reset: what all its branches cost is counted"


@dataclass(frozen=True)
class _Told:
    """What a run cost, and how sure that is."""

    spend: Spend
    untold: Mapping[str, Spend] = field(default_factory=dict[str, Spend])
    """By step: the part of which no history of the run's tells."""
    note: str = ""
    """What else is to be known of it."""
    at_least: str = ""
    """Why it may have cost more; empty: that is all."""


@dataclass(frozen=True, kw_only=True)
class Many:
    """Of which runs the sum is asked for, as typed."""

    since: str | None = None
    tags: Sequence[str] = ()

    @property
    def typed(self) -> str:
        """The option that asks for a sum; or empty."""
        return "--since" if self.since is not None else "--tag" if self.tags else ""


async def spend(
    run_id: str | None, many: Many, out: Output, *, by: By | None, offline: bool
) -> int:
    """Say what a run cost, or what many did together.

    Raises UsageError, NoSuchRun, ConnectError (of Temporal), PayloadError.
    """
    if many.typed:
        _refuse_both(run_id, many.typed, by)
        return await _spend_of_many(many, out, offline=offline)
    if run_id is None:
        raise UsageError(
            "give the id of a run; or --since 7d or --tag order=1042 for the sum of all such runs"
        )
    return await _spend_of(run_id, out, by=by, offline=offline)


def _refuse_both(run_id: str | None, option: str, by: By | None) -> None:
    if run_id is not None:
        raise UsageError(f"found both a run, {run_id!r}, and {option}; give one of the two")
    if by is not None:
        raise UsageError(f"{option} sums by agent and model; --by is for one run")


# ---- one run


async def _spend_of(run_id: str, out: Output, *, by: By | None, offline: bool) -> int:
    session = await open_session(out)
    run = await find_run(session, run_id)
    told = await _told(session, run, offline=offline)
    rows = await _rows(session, run, told, by)
    if told.note:
        out.note(told.note)
    if told.at_least:
        out.warn(f"at least: {told.at_least}")
    if out.as_json:
        steps = {"by_step": _documents(rows)} if by == "step" else {}
        out.json({**told.spend.model_dump(mode="json"), **steps})
    elif by is None:
        out.facts(facts(told.spend, complete=not told.at_least))
    else:
        shown = with_other(rows, told.spend.total)
        lines = [(name, *cells(tally)) for name, tally in shown.items()]
        out.table((by, *COLUMNS), lines, figures=len(COLUMNS))
    return 0


def _documents(rows: Mapping[str, Tally]) -> dict[str, Any]:
    return {name: row.model_dump(mode="json") for name, row in rows.items()}


async def _told(session: Session, run: Run, *, offline: bool) -> _Told:
    spent = await reports.spend(session.client, run, offline=offline)
    reset = await was_reset(session.client, run)
    if offline or (run.open and not reset):
        return _Told(spent.spend, at_least=_from_history(spent, reset=reset))
    if spent.complete and not reset:
        return _Told(spent.spend)
    more = await beyond(session, run)
    whole = _Told(spent.spend + more.spend, more.steps)
    if reset and spent.complete and not more.missing:
        return replace(whole, note=_ALL_BRANCHES)
    return replace(whole, at_least=_and_ledger(more, reset=reset))


def _from_history(spent: Spent, *, reset: bool) -> str:
    if reset:
        return "the run was reset, and only Redis knows what its other branches cost"
    return "" if spent.complete else "only finished steps are counted, as history tells them"


def _and_ledger(more: Beyond, *, reset: bool) -> str:
    """Say why a reset run, or one that was cut off, may have cost more."""
    if reset:
        lacking = more.missing or "the step under way is not counted yet"
        return f"the run was reset; what its branches cost is counted as far as known: {lacking}"
    if more.missing:
        return "only finished steps are counted; nothing could tell of anything beyond them"
    return "the run was cut off: what its last step cost is counted as far as it was noted"


async def _rows(session: Session, run: Run, told: _Told, by: By | None) -> Mapping[str, Tally]:
    if by != "step":
        return told.spend.models
    known, untold = (await steps_of(session.client, run)).spends, told.untold
    both = sorted({*known, *untold}, key=order)
    return {step: known.get(step, Spend()) + untold.get(step, Spend()) for step in both}


# ---- many runs


async def _spend_of_many(many: Many, out: Output, *, offline: bool) -> int:
    since = None if many.since is None else moment(many.since)
    which = Which(tags=parse_tags(many.tags), since=since)
    session = await open_session(out)
    found = await summed(session, which, offline=offline)
    if found.partial:
        out.warn(f"at least: {count(found.partial, 'run')} may have cost more than is counted here")
    if out.as_json:
        out.json(found.document())
    elif found.runs:
        out.table(("agent", "model", *COLUMNS), found.rows(), figures=len(COLUMNS))
        out.note(f"{count(found.runs, 'run')} {_said(which)}")
    else:
        out.say(f"there is no run {_said(which)}, or Temporal has forgotten it")
    return 0


def _said(which: Which) -> str:
    since = f"since {which.since:%Y-%m-%d %H:%M}" if which.since else ""
    return " ".join(filter(None, (", ".join(as_texts(which.tags)), since)))
