"""What a fork takes over: the records it copies, and what Claude is still to be told of calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from onward import json_text
from onward.forking.cut import Cut
from onward.forking.fates import Fate, LedgerView, fate
from onward.messages import Addition, CallResult, PreparedCall, ResultOf, ResultWritten
from onward.records import Restored
from onward.retelling.steps import Block
from onward.run_records import RunRecords
from onward.wording import outcome_unknown

NOT_RUN = (
    "Not run: the run that asked for it had ended. Nothing was done. Ask again if it is still "
    "wanted."
)
_NOT_READ = "Not run to its end, because the run had ended. It only reads: nothing was changed."
_CUT_OFF = "Not run: the reply was cut off, and none of its calls was run. Nothing was done."


@dataclass
class Answers:
    """What is to be told of the calls of the last copied step, in their order."""

    additions: list[Addition] = field(default_factory=list[Addition])
    records: dict[str, Restored] = field(default_factory=dict[str, Restored])
    """How they ended, unless in doubt; the additions refer to results there."""


def answers(cut: Cut, seen: LedgerView | None) -> Answers:
    """Answer every tool use of the last copied step, each once."""
    step, found = cut.last, Answers()
    fates = [fate(asked, cut.retelling.records, seen) for asked in cut.calls()]
    told = chain(step.answers or (), repeat(None))
    for use, became, block in zip(step.tool_uses, chain(fates, repeat(None)), told, strict=False):
        edited = cut.retelling.edits.get(became.call.call) if became else None
        addition = _addition(use, became, block, edited.note if edited else "")
        found.additions.append(addition)
        if became and (record := _record(became, addition)):
            found.records[became.call.call] = record
    return found


def doubts(cut: Cut, seen: LedgerView | None) -> dict[str, Restored]:
    """Return the copied calls of which nobody knows whether they happened, each with its why."""
    fates = (fate(asked, cut.retelling.records, seen) for asked in cut.copied_effects())
    return {each.call.call: _doubt(each) for each in fates if each.in_doubt}


def copied_records(
    cut: Cut, found: Answers, in_doubt: Mapping[str, Restored], keys: Mapping[str, Restored]
) -> RunRecords:
    """Return the records of the copied steps and calls, and of the business `keys`."""
    ends, of_run = dict[str, Restored](), cut.retelling.records
    for step in cut.copied:
        names = (step.id, *(call.call for call in step.reply.calls))
        ends |= {name: of_run[name] for name in names if name in of_run}
    turns = {step.id: step.turn.model_dump_json() for step in cut.copied}
    ended = {**ends, **keys, **found.records, **in_doubt}
    # Without them, the ends of these would look to a fork of the new run like those of other calls.
    edits = {name: edit for name, edit in cut.retelling.edits.items() if name in ended}
    return RunRecords(ended, turns, edits)


def _record(became: Fate, told: Addition) -> Restored | None:
    """Return how a call ended, unless it is in doubt; of one that never ran, what is told of it."""
    if became.record is not None:
        return became.record
    call = became.call
    if became.in_doubt or call.refusal is not None or not isinstance(told, ResultWritten):
        return None
    # To a fork of the new run it would look lost: that one's ledger never saw this call.
    never = CallResult(status="failed", content=json_text.dumps(told.text), is_error=told.is_error)
    return Restored(st="failed", fp=call.fingerprint, cls=call.effect, result=never.record())


def _doubt(became: Fate) -> Restored:
    call = became.call
    return Restored(st="doubt", fp=call.fingerprint, cls=call.effect, why=became.why)


def _addition(
    use: Mapping[str, Any], became: Fate | None, told: Block | None, note: str
) -> Addition:
    if became is None:
        return _written(use, _CUT_OFF)
    call, result = became.call, became.result
    if result is not None:
        return ResultOf(
            call=call.call,
            tool_use_id=call.tool_use_id,
            is_error=result.is_error,
            fingerprint=call.fingerprint,
            note=note,
        )
    if call.refusal is not None:
        return _written(use, call.refusal)
    if told is not None:
        return _written(use, str(told.get("content", "")), is_error=bool(told.get("is_error")))
    if not _may_act(call):
        return _written(use, _NOT_READ)
    return _written(use, NOT_RUN if became.end == "not run" else outcome_unknown(became.why))


def _may_act(call: PreparedCall) -> bool:
    return call.effect != "read"


def _written(use: Mapping[str, Any], text: str, *, is_error: bool = True) -> ResultWritten:
    return ResultWritten(tool_use_id=str(use["id"]), text=text, is_error=is_error)
