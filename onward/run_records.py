"""What the ledger should hold of a run, and a segment: what one workflow run of its chain adds.

A segment is made once and never again. Laid over those before it, it gives the whole again.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from onward import transcript
from onward.edits import EditedCall, edits_of
from onward.errors import HistoryGap, LedgerGap, PayloadError
from onward.identity import is_business_key
from onward.messages import ClaudeReply, Head, Opening
from onward.records import Restored
from onward.transcript import BEGINNING, Conversation, Turn

_VERSION = 1


@dataclass(frozen=True)
class RunRecords:
    """The ends of a run's steps and calls, and the user turns that Claude answered."""

    ends: dict[str, Restored] = field(default_factory=dict[str, Restored])
    turns: dict[str, str] = field(default_factory=dict[str, str])
    edits: dict[str, EditedCall] = field(default_factory=dict[str, EditedCall])
    """Calls that ran as a person edited them."""

    def copy(self) -> "RunRecords":
        """Return the same records, to be changed apart from these."""
        return RunRecords(dict(self.ends), dict(self.turns), dict(self.edits))

    def lay(self, added: "Added") -> None:
        """Take what a later workflow run added."""
        for position in added.dropped:
            if not self._stands(position):
                self.ends.pop(position, None)
        self.ends.update({p: end for p, end in added.ends.items() if not self._stands(p)})
        self.turns.update(added.turns)
        self.edits.update(added.edits)

    def _stands(self, position: str) -> bool:
        # What was done first under a business key is what it stands for; a doubt may be replaced.
        held = self.ends.get(position) if is_business_key(position) else None
        return held is not None and held.st != "doubt"

    def conversation(self, head: Head) -> Conversation:
        """Rebuild the conversation up to `head`. Raises `HistoryGap` where these do not tell it."""
        beginning = self.ends.get(BEGINNING)
        if beginning is None or beginning.result is None:
            raise HistoryGap("found no beginning of the run")
        frozen = Opening.model_validate_json(beginning.result).frozen
        turns = {step: Turn.model_validate_json(text) for step, text in self.turns.items()}
        ends = {step: self.ends[step].result for step in turns if step in self.ends}
        replies = {step: ClaudeReply.model_validate_json(end) for step, end in ends.items() if end}
        try:
            return transcript.conversation(head, frozen, replies, turns)
        except LedgerGap as gap:
            raise HistoryGap(str(gap)) from gap


@dataclass(frozen=True)
class Added:
    """What a segment holds."""

    ends: Mapping[str, Restored]
    turns: Mapping[str, str]
    dropped: tuple[str, ...] = ()
    """Positions whose earlier end no longer stands: a doubt that is tried again must not come back.
    """
    edits: Mapping[str, EditedCall] = field(default_factory=dict[str, EditedCall])

    def pack(self) -> bytes:
        """Return it as bytes: compressed JSON."""
        ends = {position: _sparse(end) for position, end in self.ends.items()}
        edits = {call: edit.model_dump(mode="json") for call, edit in self.edits.items()}
        parts = {"records": ends, "turns": self.turns, "dropped": self.dropped, "edits": edits}
        text = json.dumps({"v": _VERSION, **parts}, ensure_ascii=False, separators=(",", ":"))
        # Python text may hold a lone surrogate; a record must come back as it went in.
        return zlib.compress(text.encode(errors="surrogatepass"))

    @classmethod
    def unpack(cls, packed: bytes) -> "Added":
        """Read what `pack` made. Raises `PayloadError` where it is something else."""
        try:
            raw: dict[str, Any] = json.loads(zlib.decompress(packed).decode(errors="surrogatepass"))
            if raw["v"] != _VERSION:
                raise _unreadable(f"version {raw['v']!r}")
            ends = {position: Restored(**end) for position, end in raw["records"].items()}
            # A segment of before 0.5 has none.
            edits = edits_of(raw.get("edits", {}))
            return cls(ends, raw["turns"], tuple(raw["dropped"]), edits)
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(repr(error)) from error


def _sparse(end: Restored) -> dict[str, Any]:
    return {name: value for name, value in asdict(end).items() if value not in {None, ""}}


def _unreadable(found: str) -> PayloadError:
    return PayloadError(
        f"a segment of the conversation cannot be understood: found {found}, expected version "
        f"{_VERSION}. A newer Onward may have written it: run that one; or restore the payload "
        "folder from a backup"
    )
