"""What a run did after the step at which its conversation is cut: it is real, and is not undone."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onward import json_text
from onward.forking.cut import Cut
from onward.forking.fates import Fate, LedgerView, fate
from onward.records import Record
from onward.wording import in_words

_CALL = re.compile(r"(\d+)(\.r\d+)?\.\d+")
_MAY_HAVE_HAPPENED = frozenset({"done", "in doubt", "under way"})
_RESULT_CHARS = 500
_MOST_TOLD = 30
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
    effects = [_effect(each) for each in fates if each.end in _MAY_HAVE_HAPPENED]
    # What this branch denied, a branch that a reset cut off may have done.
    ran = (each.call for each in fates if each.end != "not run")
    known = {(call.call, call.fingerprint) for call in ran}
    return [*effects, *_of_other_branches(cut, known, seen)]


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
    what = f"{call.tool} ({call.summary})"
    if found.end == "done":
        content = json_text.printable(found.result.content) if found.result else ""
        return Effect(call.call, what, "done", content[:_RESULT_CHARS])
    why = in_words(found.why) if found.why else "it is under way"
    return Effect(call.call, what, f"{_UNKNOWN} ({why})")


def _of_other_branches(
    cut: Cut, known: set[tuple[str, str]], seen: LedgerView | None
) -> Iterator[Effect]:
    """Find what only Redis knows: calls of a branch that a reset cut off."""
    records: Mapping[str, Record] = seen.records if seen else {}
    for position, record in records.items():
        place = _CALL.fullmatch(position)
        later = place is not None and int(place[1]) > cut.last.number
        if later and record.cls != "read" and (position, record.fp) not in known:
            yield from _of_record(position, record)


def _of_record(position: str, record: Record) -> Iterator[Effect]:
    if record.st == "failed" or (record.st == "open" and not record.may_have_sent):
        return
    outcome = "done" if record.st == "done" else _UNKNOWN
    yield Effect(position, f"{record.cls} call that a reset left out of history", outcome)
