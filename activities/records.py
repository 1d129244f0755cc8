"""The run's records in the ledger, read as what they are."""

from collections.abc import Iterable

from onward.errors import LedgerGap
from onward.ledger import Snapshot
from onward.messages import Addition, CallResult, ClaudeReply, Opening, ResultOf
from onward.transcript import BEGINNING, Turn


def opening_of(seen: Snapshot) -> Opening:
    """What `begin` fixed for the whole run. Raises `LedgerGap`."""
    record = seen.records.get(BEGINNING)
    if record is None or record.st != "done":
        raise LedgerGap("found no record of the run's beginning, which history says was made")
    return Opening.model_validate_json(record.result)


def reply_of(seen: Snapshot, step: str) -> ClaudeReply:
    """Claude's reply of a step. Raises `LedgerGap`."""
    record = seen.records.get(step)
    if record is None or record.st != "done":
        raise LedgerGap(f"found no reply of step {step}, which history says was recorded")
    return ClaudeReply.model_validate_json(record.result)


def replies_of(seen: Snapshot) -> dict[str, ClaudeReply]:
    """Claude's replies by step id."""
    done = (step for step, record in seen.records.items() if record.st == "done")
    return {step: reply_of(seen, step) for step in done if _is_step(step)}


def results_of(seen: Snapshot, additions: Iterable[Addition]) -> dict[str, CallResult]:
    """Results that `additions` refer to, by call, as far as they are recorded."""
    asked = {item.call: item.fingerprint for item in additions if isinstance(item, ResultOf)}
    return {
        call: CallResult.model_validate_json(record.result)
        for call, record in seen.records.items()
        # Another branch's record at this position is a gap: its result answers another call.
        if record.st in {"done", "failed"} and asked.get(call) in {"", record.fp}
    }


def turns_of(seen: Snapshot) -> dict[str, Turn]:
    """Frozen user turns by step id."""
    return {step: Turn.model_validate_json(text) for step, text in seen.turns.items()}


def _is_step(name: str) -> bool:
    """A step is `12`, `12.r1` or `12.c1`; a call is `12.1` or `12.r1.1`, a business key `k:…`."""
    last = name.rsplit(".", 1)[-1]
    return name[0].isdigit() and name != BEGINNING and ("." not in name or last[0] in "rc")
