"""What the business keys of a run stand for: the fork recognises them, as the run itself would."""

from collections.abc import Iterator, Mapping
from typing import cast

from onward.forking.cut import Cut
from onward.forking.fates import Fate, LedgerView, fate
from onward.identity import is_business_key
from onward.messages import CallResult, EffectClass
from onward.rebuilding import Asked, Rebuilding
from onward.records import Record, Restored
from onward.run_records import RunRecords


def business_keys(cut: Cut, seen: LedgerView | None, workflow_id: str) -> dict[str, Restored]:
    """Return what became of each business key of the run `workflow_id`, by its position.

    Those of calls after the cut too. Of a key that history and ledger say nothing of, the call that
    asked for it tells: a run that was cut off has not heard its end.
    """
    rebuilding, keys = Rebuilding(), RunRecords(_recorded(cut.retelling.records, seen))
    for asked in cut.effects():
        if asked.call.business is None:
            continue
        became = fate(asked, cut.retelling.records, seen)
        if told := _told(became):
            rebuilding.called(Asked.of(became.call, workflow_id), told)
    keys.lay(rebuilding.added())
    return {name: end for name, end in keys.ends.items() if is_business_key(name)}


def _told(became: Fate) -> CallResult | None:
    if became.in_doubt:
        return CallResult(status="in_doubt", content='""', is_error=True, why=became.why)
    # A call that failed says nothing of an earlier one that asked for the same, and is in doubt.
    return became.result if became.end == "done" else None


def _recorded(of_run: Mapping[str, Restored], seen: LedgerView | None) -> dict[str, Restored]:
    """Take what is recorded of keys; a truth that only the ledger has outranks a doubt."""
    keys = {name: end for name, end in of_run.items() if is_business_key(name)}
    for name, held in _held(seen):
        if name not in keys or keys[name].st == "doubt":
            keys[name] = held
    return keys


def _held(seen: LedgerView | None) -> Iterator[tuple[str, Restored]]:
    # History may lack them: a call of a branch that a reset cut off has its key in Redis alone.
    if seen is None:
        return
    for name, record in seen.records.items():
        if is_business_key(name) and (record.st != "open" or record.may_have_sent):
            yield name, _end(record)


def _end(record: Record) -> Restored:
    cls = cast("EffectClass", record.cls)
    if record.st == "done":
        return Restored(st="done", fp=record.fp, cls=cls, result=record.result)
    why = record.why or "the run ended while it was under way"
    return Restored(st="doubt", fp=record.fp, cls=cls, why=why, at_ms=record.at_ms or None)
