"""Compare what Redis holds of a run with what its history says, record by record."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from onward import json_text
from onward.audit.effects import closed_for_good
from onward.audit.held import Held
from onward.audit.positions import is_step, order
from onward.audit.timeline import CallStory
from onward.identity import downstream_key
from onward.messages import CallResult, ClaudeReply, Opening
from onward.own_history import Told
from onward.records import Record, Restored
from onward.transcript import BEGINNING

_SETTLED = frozenset({"done", "failed"})
_IN_WORDS = {"doubt": "in doubt", "claimed": "claimed, never ended", "open": "open, never ended"}
_LOST, _LOST_ALL = "lost it", "lost them all"
_EVERYWHERE = "all"


@dataclass(frozen=True)
class Difference:
    """One thing on which history and ledger do not agree."""

    position: str
    """A call `12.1`, a step of Claude's `12`, the run's beginning `0`, a business key `k:…`; or
    `all` of them.
    """
    what: str
    history: str
    ledger: str

    def __str__(self) -> str:
        differ = "differ" if self.position == _EVERYWHERE else "differs"
        both = f"history has {self.history or 'none'}, the ledger {self.ledger or 'none'}"
        return f"{_place(self.position)}: the {self.what} {differ}; {both}"


def differences(
    told: Told, stories: Mapping[str, CallStory], held: Held, *, closed: bool, was_reset: bool
) -> list[Difference]:
    """List what differs, in the order of steps and calls.

    While the run goes on, a call may be ahead in the ledger: that is none. Nor is what only the
    ledger knows of a run that was reset: it is another branch's.
    """
    found = list(_wrong_keys(stories))
    if held.empty and told.records:
        return [*found, _all_lost(told)]
    for position, end in told.records.items():
        found += _of_record(position, end, held, steps=told.turns, closed=closed)
    if closed and not was_reset:
        found += [*_only_in_ledger(told, stories, held), *_wrong_names(stories, held)]
    return sorted(found, key=lambda each: order(each.position))


def _all_lost(told: Told) -> Difference:
    return Difference(_EVERYWHERE, "records", f"{len(told.records)}", _LOST_ALL)


def _wrong_keys(stories: Mapping[str, CallStory]) -> Iterator[Difference]:
    """Derive each idempotency key anew: it depends on nothing but what history holds."""
    for call, story in stories.items():
        if story.run is None:
            continue
        prepared = story.prepared
        key = downstream_key(story.run, call, prepared.fingerprint, prepared.business)
        if key != prepared.key:
            yield Difference(call, "idempotency key", prepared.key, f"by its rule {key}")


def _of_record(
    position: str, end: Restored, held: Held, *, steps: Mapping[str, str], closed: bool
) -> Iterator[Difference]:
    record = held.records.get(position)
    if record is None:
        yield Difference(position, "record", _state(end.st), held.broken.get(position, _LOST))
        return
    if record.fp != end.fp:
        yield Difference(position, "fingerprint", end.fp, record.fp)
    if record.cls != end.cls:
        yield Difference(position, "class", end.cls, record.cls)
    if record.st != end.st:
        if closed or not _being_settled(end, record):
            yield Difference(position, "state", _state(end.st), _state(record.st))
    elif record.st in _SETTLED:
        yield from _of_result(position, end.result or "", record.result, is_step=position in steps)


def _being_settled(end: Restored, record: Record) -> bool:
    """A person has had it tried again, and history does not know the end yet."""
    return end.st == "doubt" and record.st in {"open", "claimed"}


def _of_result(position: str, history: str, ledger: str, *, is_step: bool) -> Iterator[Difference]:
    parts = _reply_parts if is_step else _call_parts
    if position == BEGINNING:
        parts = _beginning_parts
    expected = parts(history)
    try:
        found = parts(ledger)
    except ValidationError:
        yield Difference(position, "result", "a result", f"what is none: {ledger[:100]!r}")
        return
    for what, value in expected.items():
        if found[what] != value:
            yield Difference(position, what, value, found[what])


def _call_parts(text: str) -> dict[str, str]:
    result = CallResult.model_validate_json(text)
    return {
        "result": _digest(result.content),
        "is_error": str(result.is_error),
        "first call that asked for the same": result.first_call,
    }


def _reply_parts(text: str) -> dict[str, str]:
    reply = ClaudeReply.model_validate_json(text)
    calls = (call.model_dump_json() for call in reply.calls)
    return {"reply": _digest(reply.message), "list of calls": _digest(*calls)}


def _beginning_parts(text: str) -> dict[str, str]:
    return {"frozen beginning": _digest(Opening.model_validate_json(text).frozen)}


def _digest(*texts: str) -> str:
    return f"SHA-256 {json_text.sha256(*texts)}"


def _only_in_ledger(
    told: Told, stories: Mapping[str, CallStory], held: Held
) -> Iterator[Difference]:
    """Find effects of which the history of the ended run does not know how they ended."""
    for position, record in held.records.items():
        if position in told.records or record.cls == "read" or not _may_have_happened(record):
            continue
        story = stories.get(position)
        doubted = story is not None and story.failure
        if not (doubted and record.st in {"doubt", "open"}):
            yield Difference(
                position, "state", "in doubt" if doubted else "no end", _state(record.st)
            )


def _wrong_names(stories: Mapping[str, CallStory], held: Held) -> Iterator[Difference]:
    """Find doubts that somebody else settled than history says. What was rebuilt has no name."""
    for call, story in stories.items():
        record = held.records.get(call)
        settlers = {each.by for each in story.decisions if each.what == "resolved"}
        if record and record.by and record.by not in settlers:
            yield Difference(call, "name of who resolved it", ", ".join(settlers), record.by)


def _may_have_happened(record: Record) -> bool:
    # What a business key stands for is told by the call that acted on it; one that is open is free.
    is_call = not record.fp.startswith("k:")
    unclear = record.st != "open" or (is_call and record.may_have_sent)
    return unclear and not closed_for_good(record)


def _place(position: str) -> str:
    if position == BEGINNING:
        return "beginning"
    return f"step {position}'s request" if is_step(position) else position


def _state(state: str) -> str:
    return _IN_WORDS.get(state, state)
