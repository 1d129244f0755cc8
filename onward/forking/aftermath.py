"""What a run did after the step at which its conversation is cut: it is real, and is not undone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onward import json_text
from onward.audit.effects import asked_for, unnamed
from onward.audit.positions import is_call, order, step_number
from onward.forking.cut import Cut
from onward.forking.fates import Fate, LedgerView, by_record, fate
from onward.messages import PreparedCall
from onward.records import Record
from onward.wording import in_words

_MAY_HAVE_HAPPENED = frozenset({"done", "in doubt", "under way"})
_RESULT_CHARS = 500
_MOST_TOLD = 30
_UNNAMED = "that a reset left out of history"
_UNKNOWN = "OUTCOME UNKNOWN, it may or may not have happened"
_GONE_ON = (
    "This conversation goes on from here as a copy of an earlier one. The earlier one went "
    "further, and did the following, which stands and which you have not seen. Do not do it again. "
    "Where the outcome is unknown, find out with another tool whether it happened, or ask the "
    "person."
)


@dataclass(frozen=True)
class Effect:
    """One effect that happened, or may have."""

    call: str
    what: str
    """Tool and arguments in one line."""
    outcome: str
    """`done`, or `in doubt: …`."""
    result: str = ""
    """What Claude was told of it, JSON text, cut."""


def aftermath(cut: Cut, seen: LedgerView | None) -> list[Effect]:
    """List the effects after the cut that happened or are in doubt, in the order of the calls."""
    fates = [fate(each, cut.retelling.records, seen) for each in cut.later_effects()]
    # What this branch denied, a branch that a reset cut off may have done.
    ran = (each.call for each in fates if each.end != "not run")
    known = {(call.call, call.fingerprint) for call in ran}
    fates += _of_other_branches(cut, known, seen) if seen else []
    return [_effect(each) for each in fates if each.end in _MAY_HAVE_HAPPENED]


def told_to_claude(effects: Sequence[Effect]) -> str:
    """Say in words for Claude what was done since; of very many the first ones."""
    more = len(effects) - _MOST_TOLD
    rest = [f"- {more} more after these, not listed here: ask the person."] if more > 0 else []
    return "\n".join([_GONE_ON, *map(_line, effects[:_MOST_TOLD]), *rest])


def told_to_people(effects: Iterable[Effect]) -> list[str]:
    """Say it in a line each."""
    return [f"{effect.call} {effect.what}: {effect.outcome}" for effect in effects]


def _line(effect: Effect) -> str:
    result = f". Its result: {effect.result}" if effect.result else ""
    return f"- {effect.what}: {effect.outcome}{result}"


def _effect(found: Fate) -> Effect:
    call = found.call
    what = f"{call.tool} ({call.summary})" if call.tool else f"{call.effect} call {_UNNAMED}"
    if found.end == "done":
        content = json_text.printable(found.result.content) if found.result else ""
        return Effect(call.call, what, "done", content[:_RESULT_CHARS])
    return Effect(call.call, what, f"{_UNKNOWN} ({in_words(found.why)})")


def _of_other_branches(cut: Cut, known: set[tuple[str, str]], seen: LedgerView) -> Iterator[Fate]:
    """Find what only Redis knows: calls of a branch that a reset cut off."""
    asked = {call.call: call for call in asked_for(seen.records.values())}
    for position in sorted(filter(is_call, seen.records), key=order):
        record = seen.records[position]
        later = step_number(position) > cut.last.number
        if later and record.cls != "read" and (position, record.fp) not in known:
            call = _named(asked.get(position), position, record)
            yield by_record(call, record, seen.now_ms)


def _named(asked: PreparedCall | None, position: str, record: Record) -> PreparedCall:
    return asked if asked and asked.fingerprint == record.fp else unnamed(position, record)
