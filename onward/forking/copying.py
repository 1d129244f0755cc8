"""What a fork takes over: the records it copies, and what Claude is still to be told of calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from onward.forking.cut import Cut
from onward.forking.fates import Fate, LedgerView, fate
from onward.messages import Addition, PreparedCall, ResultOf, ResultWritten
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
    """Results that the additions refer to."""
    in_doubt: list[str] = field(default_factory=list[str])


def answers(cut: Cut, seen: LedgerView | None) -> Answers:
    """Answer every tool use of the last copied step, each once."""
    step, found = cut.last, Answers()
    fates = [fate(asked, cut.retelling.records, seen) for asked in cut.calls()]
    told = chain(step.answers or (), repeat(None))
    for use, became, block in zip(step.tool_uses, chain(fates, repeat(None)), told, strict=False):
        found.additions.append(_addition(use, became, block))
        if became and became.record:
            found.records[became.call.call] = became.record
        elif became and became.in_doubt and _may_act(became.call):
            found.in_doubt.append(became.call.call)
    return found


def copied_records(cut: Cut, found: Answers, keys: Mapping[str, Restored]) -> RunRecords:
    """Return the records of the copied steps and calls, and of the business `keys`."""
    ends, of_run = dict[str, Restored](), cut.retelling.records
    for step in cut.copied:
        names = (step.id, *(call.call for call in step.reply.calls))
        ends |= {name: of_run[name] for name in names if name in of_run}
    turns = {step.id: step.turn.model_dump_json() for step in cut.copied}
    return RunRecords({**ends, **keys, **found.records}, turns)


def _addition(use: Mapping[str, Any], became: Fate | None, told: Block | None) -> Addition:
    if became is None:
        return _written(use, _CUT_OFF)
    call, result = became.call, became.result
    if result is not None:
        return ResultOf(
            call=call.call,
            tool_use_id=call.tool_use_id,
            is_error=result.is_error,
            fingerprint=call.fingerprint,
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
