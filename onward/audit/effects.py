"""One row for each call: what history and the ledger together know of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from pydantic import ValidationError

from onward import json_text
from onward.audit.decisions import Decision
from onward.audit.held import Held
from onward.audit.positions import is_call, order, step_number
from onward.audit.timeline import CallStory
from onward.messages import BusinessKey, CallResult, ClaudeReply, PreparedCall
from onward.names import CANCEL_OWNER, FORK_OWNER
from onward.records import Record, Restored
from onward.runs import Pending

Outcome = Literal[
    "done",
    "repeated",
    "failed",
    "in doubt",
    "denied",
    "not run",
    "under way",
    "waiting",
    "not known",
]
"""`repeated`: an earlier call had asked for the same, and its result was given. `not known`: it
ended, and how is in a payload that is lost."""
_ENDINGS: dict[str, Outcome] = {"done": "done", "failed": "failed", "doubt": "in doubt"}
_STATUSES: dict[str | None, Outcome] = {"done": "done", "failed": "failed", "in_doubt": "in doubt"}
_LONGEST_WHY = 300


@dataclass(frozen=True)
class Effect:
    """What became of one call."""

    call: str
    tool: str
    """Empty where neither history nor the ledger has the reply that asked for it."""
    effect: str
    summary: str
    fingerprint: str
    key: str
    business: BusinessKey | None
    claims: int | None
    """Claims in the ledger that count; None: not known."""
    claims_since: datetime | None
    """When a person last had it tried again: no claim before that counts. None: all do."""
    attempts: int | None
    """Attempts that Temporal counts; None: not known."""
    decisions: tuple[Decision, ...]
    scheduled: datetime | None
    first_claim: datetime | None
    """Of the claims that count."""
    ended: datetime | None
    outcome: Outcome
    why: str
    first_call: str
    """Whose result it got, where an earlier call asked for the same."""
    recorded: bool
    known_by: tuple[Literal["history", "ledger"], ...]
    rebuilt: bool
    """The ledger has it from history or a late attempt: its claims were lost."""
    asked_for: str
    """In one line what Claude had asked for, where a person edited it; the rest is of the edit."""


@dataclass(frozen=True)
class Sources:
    """Where the rows come from."""

    stories: Mapping[str, CallStory]
    ends: Mapping[str, Restored]
    """How calls ended, as history tells; without what stands after a payload that is lost."""
    held: Held | None
    """None: Redis cannot be asked."""
    pending: tuple[Pending, ...]
    closed: bool
    """The run is over."""
    copied_steps: int = 0
    """Of a fork: the first steps, whose calls are its parent's."""

    @property
    def records(self) -> Mapping[str, Record]:
        """Records in Redis that can be read."""
        return self.held.records if self.held else {}


def effects(sources: Sources, *, reads: bool) -> list[Effect]:
    """Make the rows, in the order of the calls; `reads` are left out unless asked for."""
    stories = {**_only_in_ledger(sources), **sources.stories}
    rows = [_effect(stories[call], sources) for call in sorted(stories, key=order)]
    own = (row for row in rows if step_number(row.call) > sources.copied_steps)
    return [row for row in own if reads or row.effect != "read"]


def _only_in_ledger(sources: Sources) -> dict[str, CallStory]:
    """Find calls that this history does not know: of an earlier branch, or not told to it yet."""
    lone = {call: unnamed(call, record) for call, record in sources.records.items()}
    asked = {call.call: call for call in asked_for(sources.records.values())}
    # One that is recorded under another fingerprint ran as a person edited it.
    edited = {call for call in asked.keys() & lone.keys() if not _alike(asked[call], lone[call])}
    named = {call: prepared for call, prepared in asked.items() if call not in edited}
    return {
        call: CallStory(prepared, None)
        for call, prepared in {**lone, **named}.items()
        if is_call(call)
    }


def _alike(one: PreparedCall, other: PreparedCall) -> bool:
    return one.fingerprint == other.fingerprint


def asked_for(records: Iterable[Record]) -> Iterable[PreparedCall]:
    """Go through the calls that recorded replies of Claude's ask for."""
    for record in records:
        if record.cls == "read" and record.st == "done":
            try:
                yield from ClaudeReply.model_validate_json(record.result).calls
            except ValidationError:  # another record: the run's beginning, a call that reads
                continue


def unnamed(call: str, record: Record) -> PreparedCall:
    """Describe a call of which only its own record is left: its tool and input are not known."""
    # Constructed and not validated: a record of a class that nobody knows is shown all the same.
    return PreparedCall.model_construct(
        call=call,
        tool_use_id="",
        tool="",
        effect=cast("Any", record.cls),
        fingerprint=record.fp,
        key="",
        summary="",
        timeout_s=0,
    )


# ---- one row


def _effect(story: CallStory, sources: Sources) -> Effect:
    prepared, call = story.prepared, story.prepared.call
    end, record = sources.ends.get(call), _same(sources.records.get(call), prepared)
    first_call = _first_call(end, record)
    outcome, why = _outcome(story, end, record, sources)
    claimed = record if record and (record.requests or record.st == "open") else None
    # Without a claim that counts, the record has the first of those that do not.
    first_ms = claimed.first_ms if claimed and claimed.requests else 0
    return Effect(
        call=call,
        tool=prepared.tool,
        effect=prepared.effect,
        summary=prepared.summary,
        fingerprint=prepared.fingerprint,
        key=prepared.key,
        business=prepared.business,
        claims=claimed.requests if claimed else None,
        claims_since=_last_retry(story) if claimed else None,
        attempts=_attempts(story, sources),
        decisions=tuple(story.decisions),
        scheduled=story.scheduled,
        first_claim=datetime.fromtimestamp(first_ms / 1000, UTC) if first_ms else None,
        ended=story.ended,
        outcome="repeated" if first_call and outcome == "done" else outcome,
        why=why,
        first_call=first_call,
        recorded=story.recorded,
        known_by=(*(("history",) if story.run else ()), *(("ledger",) if record else ())),
        rebuilt=record is not None and claimed is None,
        asked_for=story.asked_for.summary if story.asked_for else "",
    )


def _same(record: Record | None, prepared: PreparedCall) -> Record | None:
    """Leave out a record of what another branch asked for at the same position."""
    return record if record and record.fp == prepared.fingerprint else None


def _last_retry(story: CallStory) -> datetime | None:
    return max((each.at for each in story.decisions if each.retry), default=None)


def _attempts(story: CallStory, sources: Sources) -> int | None:
    if story.run is None or story.in_step:
        return None
    if not story.open_activity:
        return story.attempts
    # History counts an activity's attempts when it ends: of one that was cut off, never.
    pending = _pending(story, sources)
    return story.attempts + pending.attempt if pending else None


def _pending(story: CallStory, sources: Sources) -> Pending | None:
    mine = (each for each in sources.pending if each.activity_id == story.open_activity)
    return next(mine, None)


def _first_call(end: Restored | None, record: Record | None) -> str:
    text = (end.result if end else record.result if record else "") or ""
    try:
        return CallResult.model_validate_json(text).first_call
    except ValidationError:
        return ""


# ---- how it ended


def _outcome(
    story: CallStory, end: Restored | None, record: Record | None, sources: Sources
) -> tuple[Outcome, str]:
    """Say how a call ended: history's word first, then the ledger's."""
    if story.prepared.refusal:
        return "not run", story.prepared.refusal
    if denied := next((d for d in story.decisions if d.what == "denied"), None):
        return "denied", story.told if denied.expired else denied.said
    if end is not None:
        return _ending(end.st, end.result, end.why)
    if record is not None and closed_for_good(record):
        return "not run", _closed_by(record)
    if record is not None and record.st in _ENDINGS:
        return _ending(record.st, record.result, record.why)
    return _without_end(story, record, sources)


def closed_for_good(record: Record) -> bool:
    """Say whether the end of the run, or a fork of it, proved that the call never ran."""
    return record.st == "failed" and record.own.startswith((FORK_OWNER, CANCEL_OWNER))


def _closed_by(record: Record) -> str:
    if record.own.startswith(CANCEL_OWNER):
        return "the run was cancelled before anything was sent, which closed it for good"
    fork = record.own.removeprefix(FORK_OWNER)
    return f"the run ended before its turn came, and its fork ({fork}) closed it for good"


def _without_end(story: CallStory, record: Record | None, sources: Sources) -> tuple[Outcome, str]:
    if story.ended and not story.failure:
        return _STATUSES.get(story.status, "not known"), story.doubt
    if story.failure and not (story.to_repeat and not sources.closed):
        return "in doubt", story.failure
    if story.open_activity or (record is not None and record.st == "claimed"):
        return _at_work(story, sources)
    return _not_begun(story, sources.closed)


def _ending(state: str, result: str | None, why: str) -> tuple[Outcome, str]:
    said = why if state == "doubt" else _words(result) if state == "failed" else ""
    return _ENDINGS[state], said[:_LONGEST_WHY]


def _words(result: str | None) -> str:
    try:
        content = json_text.values(CallResult.model_validate_json(result or "").content)
    except ValueError:
        return ""
    return content if isinstance(content, str) else json_text.dumps(content)


def _at_work(story: CallStory, sources: Sources) -> tuple[Outcome, str]:
    if sources.closed:
        return "in doubt", "the run ended while it was under way"
    pending = _pending(story, sources)
    return "under way", pending.last_failure if pending else ""


def _not_begun(story: CallStory, closed: bool) -> tuple[Outcome, str]:
    again = bool(story.decisions) and story.decisions[-1].retry
    if closed or story.over:
        before = "it was tried again" if again else "its turn came"
        return "not run", story.told or f"the run ended before {before}"
    if again or story.to_repeat:
        return "under way", "it is to be tried again"
    if story.prepared.ask and not story.decisions:
        return "waiting", f"for an approval: {story.prepared.ask}"
    return "waiting", "for its turn"
