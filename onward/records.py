"""What the ledger answers, and the records that it holds. `ledger.lua` declares their states."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from onward.errors import LedgerUnreadable
from onward.messages import EffectClass, Witness

State = Literal["open", "claimed", "done", "failed", "doubt"]
Ending = Literal["done", "failed", "doubt"]

_VERSION = 1
_NUMBERS = ("fence", "exp", "first", "n", "ms")


@dataclass(frozen=True)
class Claim:
    """Answer to `claim`: whether this attempt may send, and if not, what is known instead."""

    verdict: Literal["claimed", "busy", "done", "failed", "doubt", "mismatch"]
    """`mismatch`: the record is of another request; says nothing about that one's effect."""
    fence: int = 0
    """Of a claim: higher than that of every claim before it."""
    may_have_sent: bool = False
    """Of a claim: an earlier request of this call may still land."""
    wait_ms: int = 0
    """Of busy: how long the other attempt's lease lasts, if it is not renewed."""
    result: str = ""
    """Of done and failed: the JSON text that was recorded."""
    why: str = ""
    """Of doubt: `owner_lost`, `records_lost`, `result_lost` or what an attempt said."""
    at_ms: int = 0
    """Of doubt: since when, ms of the server's clock. It names the doubt: see `Ledger.resolve`."""
    requests: int = 0
    """Claims so far that count, this one included: each may have sent a request."""
    first_ms: int = 0
    """When the first of them was claimed, ms of the server's clock."""
    now_ms: int = 0
    turn: str | None = None
    """Of a step of Claude's, claimed or done: the user turn that is frozen for it."""
    usages: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of a step of Claude's: what each earlier attempt used, by token."""
    witness: Witness | None = None
    """Of a step of Claude's: the witness that the calls of its reply must use."""


@dataclass(frozen=True)
class Verdict:
    """Answer to what an attempt tells the ledger about a step that it claimed."""

    verdict: Literal["claimed", "open", "done", "failed", "doubt", "mismatch", "fenced"]
    """`fenced`: the claim is no longer this attempt's, and nothing was written."""
    result: str = ""
    """Of done and failed: what is recorded; not always what this attempt brought (first wins)."""
    why: str = ""
    """Of doubt: the reason. Of fenced: the state found, or `absent`."""
    at_ms: int = 0
    """Of doubt: since when; names it, as in `Claim`."""
    turn: str | None = None
    """Of a step of Claude's: the user turn that the recorded reply answers."""
    witness: Witness | None = None
    """Of a step of Claude's: the witness that the calls of its reply must use."""


@dataclass(frozen=True)
class Resolved:
    """Answer to a person who settles a doubt."""

    verdict: Literal["done", "failed", "open", "stale", "early", "gap"]
    """`done`, `failed`, `open` (another attempt may send): how the step stands now, also where
    that was settled before. `stale`: another doubt than the person looked at. `early`: a request
    may still be under way. `gap`: the doubt is not there; refill the ledger from history, then
    resolve again. Nothing is written by the last three."""
    result: str = ""
    """Of done and failed: what is recorded; not what the person brought if the truth came first."""
    wait_ms: int = 0
    """Of early: how long until `failed` and `retry` are taken."""
    at_ms: int = 0
    """Of stale: the doubt that stands now."""


@dataclass(frozen=True)
class Record:
    """What the ledger holds of one step."""

    st: State
    fp: str
    cls: str
    own: str
    fence: int
    lease_ends_ms: int
    requests: int
    first_ms: int
    may_have_sent: bool
    result: str = ""
    """Of done and failed: the JSON text."""
    why: str = ""
    at_ms: int = 0
    by: str = ""
    """Who settled it, as they called themselves; empty where no person did."""


@dataclass(frozen=True)
class Restored:
    """How a step ended, as history tells it; see `Ledger.restore`."""

    st: Ending
    fp: str
    cls: EffectClass
    result: str | None = None
    """Of done and failed: the JSON text."""
    why: str = ""
    at_ms: int | None = None
    """Of a doubt: the moment that names it. None: now."""


@dataclass(frozen=True)
class Snapshot:
    """What the ledger holds of a run, or of some of its steps, in one moment."""

    records: Mapping[str, Record]
    """By step. One whose out-of-line result is lost is left out, like one that is lost itself."""
    turns: Mapping[str, str]
    """Frozen user turns by step."""
    witness: Witness | None
    """Of the dataset seen; None where it holds no birth nonce of this run."""


def parse_record(step: str, text: str, blobs: Mapping[str, str]) -> Record | None:
    """Read a record; `blobs` holds the out-of-line results by SHA-256.

    None where its result is lost: that is worth no more than a record that is lost itself. Raises
    LedgerUnreadable where it is of another version or no record at all.
    """
    try:
        raw = json.loads(text)
        numeric = all(type(raw[name]) in (int, float) for name in _NUMBERS)
        if not numeric or raw["v"] != _VERSION or raw["st"] not in get_args(State):
            raise unreadable(f"of step {step!r}", text)
        if "ref" in raw and raw["ref"] not in blobs:
            return None
        return Record(
            **{name: raw[name] for name in ("st", "fp", "cls", "own")},
            fence=int(raw["fence"]),
            lease_ends_ms=int(raw["exp"]),
            requests=int(raw["n"]),
            first_ms=int(raw["first"]),
            may_have_sent=raw["ms"] == 1,
            result=blobs[raw["ref"]] if "ref" in raw else raw.get("res", raw.get("err", "")),
            why=raw.get("why", ""),
            at_ms=int(raw.get("at", 0)),
            by=raw.get("by", ""),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable(f"of step {step!r}", text) from error


def unreadable(which: str, found: str) -> LedgerUnreadable:
    """Make the error that says which record cannot be understood, and what to do."""
    return LedgerUnreadable(
        f"the record {which} cannot be understood; expected version {_VERSION}, found "
        f"{found[:200]!r}. A newer Onward may have written it: run that one. Nothing was written"
    )
