"""What became of a call, by history and ledger together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from onward.forking.cut import WitnessedCall
from onward.messages import CallResult, PreparedCall
from onward.records import Record, Restored

End = Literal["done", "failed", "in doubt", "not run", "under way"]
"""`not run`: proved, by a ledger that lost nothing. `under way`: an attempt holds a lease."""

_OPEN_ENDS: dict[str, str] = {"claimed": "owner_lost", "open": "its last attempt had no answer"}


@dataclass(frozen=True)
class LedgerView:
    """What Redis holds of a run, looked at once."""

    records: Mapping[str, Record]
    nonce: str
    """Birth nonce; empty: it is lost."""
    now_ms: int


@dataclass(frozen=True)
class Fate:
    """What became of one call."""

    call: PreparedCall
    end: End
    record: Restored | None = None
    """Of done and failed."""
    why: str = ""
    """Of a doubt."""
    until_ms: int = 0
    """Of one under way: when its lease ends, if it is not renewed."""

    @property
    def result(self) -> CallResult | None:
        """What it brought."""
        text = self.record.result if self.record else None
        return CallResult.model_validate_json(text) if text else None


def fate(asked: WitnessedCall, ends: Mapping[str, Restored], seen: LedgerView | None) -> Fate:
    """Judge a call by `ends`, as history tells them, and by what Redis holds (None: it is away)."""
    call, witness = asked
    end = ends.get(call.call)
    if end and end.result is not None and end.fp == call.fingerprint:
        return Fate(call, "done" if end.st == "done" else "failed", end)
    if seen is None:
        return Fate(call, "in doubt", why=end.why if end else "Redis cannot be asked")
    if held := seen.records.get(call.call):
        return _held(call, held, seen.now_ms)
    if end:
        return Fate(call, "in doubt", why=end.why)
    # Absent means never sent only in the very dataset that its claim would have been written to.
    trusted = witness.nonce and seen.nonce == witness.nonce
    return Fate(call, "not run") if trusted else Fate(call, "in doubt", why="records_lost")


def _held(call: PreparedCall, held: Record, now_ms: int) -> Fate:
    if held.fp != call.fingerprint:
        return Fate(call, "in doubt", why="another request is recorded at its position")
    match held.st:
        case "done" | "failed":
            kept = Restored(st=held.st, fp=held.fp, cls=call.effect, result=held.result)
            return Fate(call, held.st, kept)
        case "claimed" if held.lease_ends_ms > now_ms:
            return Fate(call, "under way", until_ms=held.lease_ends_ms)
        case "open" if not held.may_have_sent:
            return Fate(call, "not run")
        case state:
            return Fate(call, "in doubt", why=held.why or _OPEN_ENDS.get(state, state))
