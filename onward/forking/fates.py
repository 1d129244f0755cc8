"""What became of a call, by history and ledger together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from onward.forking.cut import StepCall
from onward.messages import CallResult, PreparedCall, Witness
from onward.records import Record, Restored
from onward.retelling.steps import Block
from onward.wording import says_unknown

End = Literal["done", "failed", "in doubt", "not run", "under way"]
"""`not run`: Claude was told so, or history or a ledger that lost nothing proves it. `under way`:
an attempt holds a lease."""

_HELD = "it is under way"
_OPEN_ENDS: dict[str, str] = {"claimed": "owner_lost", "open": "its last attempt had no answer"}


@dataclass(frozen=True)
class LedgerView:
    """What Redis holds of a run, looked at once."""

    records: Mapping[str, Record]
    witness: Witness | None
    """Of the dataset seen; None: its birth nonce is lost."""
    now_ms: int

    def trusts(self, given: Witness) -> bool:
        """Say whether what is absent was never written, as `trusted` does in `ledger.lua`."""
        here = self.witness
        if here is None or not given.nonce or given.nonce != here.nonce:
            return False
        return (given.strict and here.strict) or given.inc == here.inc


@dataclass(frozen=True)
class Fate:
    """What became of one call."""

    call: PreparedCall
    end: End
    record: Restored | None = None
    """Of done and failed."""
    why: str = ""
    """Of a doubt, and of one under way: what is not known of it."""
    until_ms: int = 0
    """Of one under way: when its lease ends, if it is not renewed."""

    @property
    def in_doubt(self) -> bool:
        """It may have happened, and nobody waits any more to hear whether it did."""
        return self.end in {"in doubt", "under way"}

    @property
    def result(self) -> CallResult | None:
        """What it brought."""
        text = self.record.result if self.record else None
        return CallResult.model_validate_json(text) if text else None


def fate(asked: StepCall, ends: Mapping[str, Restored], seen: LedgerView | None) -> Fate:
    """Judge a call by `ends`, as history tells them, and by what Redis holds (None: it is away)."""
    call, end = asked.call, ends.get(asked.call.call)
    if call.refusal is not None:
        return Fate(call, "not run")
    if end and end.result is not None and end.fp == call.fingerprint:
        return Fate(call, "done" if end.st == "done" else "failed", end)
    held = seen.records.get(call.call) if seen else None
    by_ledger = by_record(call, held, seen.now_ms) if seen and held else None
    if asked.told is not None:
        return _told(call, asked.told, end, by_ledger)
    return by_ledger or _absent(asked, end, seen)


def _told(call: PreparedCall, told: Block, end: Restored | None, by_ledger: Fate | None) -> Fate:
    """Judge a call of which Claude was told in words: they stand, unless it was done after all."""
    if by_ledger and by_ledger.end == "done":
        return by_ledger
    if not says_unknown(str(told.get("content", ""))):
        return Fate(call, "not run")
    if by_ledger and by_ledger.end == "under way":
        return by_ledger
    return Fate(call, "in doubt", why=end.why if end else "no attempt told how it ended")


def _absent(asked: StepCall, end: Restored | None, seen: LedgerView | None) -> Fate:
    call = asked.call
    if end:
        return Fate(call, "in doubt", why=end.why)
    if asked.never_started:
        return Fate(call, "not run")
    if seen is None:
        return Fate(call, "in doubt", why="Redis cannot be asked")
    # Absent means never sent only in the very dataset that its claim would have been written to.
    trusted = seen.trusts(asked.witness)
    return Fate(call, "not run") if trusted else Fate(call, "in doubt", why="records_lost")


def by_record(call: PreparedCall, held: Record, now_ms: int) -> Fate:
    """Judge a call by its record in the ledger alone."""
    if held.fp != call.fingerprint:
        return Fate(call, "in doubt", why="another request is recorded at its position")
    match held.st:
        case "done" | "failed":
            kept = Restored(st=held.st, fp=held.fp, cls=call.effect, result=held.result)
            return Fate(call, held.st, kept)
        case "claimed" if held.lease_ends_ms > now_ms:
            return Fate(call, "under way", why=_HELD, until_ms=held.lease_ends_ms)
        case "open" if not held.may_have_sent:
            return Fate(call, "not run")
        case state:
            return Fate(call, "in doubt", why=held.why or _OPEN_ENDS.get(state, state))
