"""What the ledger should hold of a run, and a segment: what one workflow run of its chain adds.

A segment is made once and never again. Laid over those before it, it gives the whole again.
"""

import asyncio
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from temporalio.converter import DataConverter

from onward import segments, transcript
from onward.errors import HistoryGap, LedgerGap, PayloadError
from onward.messages import ClaudeReply, Head, Opening
from onward.records import Restored
from onward.transcript import BEGINNING, Conversation, Turn

_VERSION = 1


@dataclass(frozen=True)
class RunRecords:
    """The ends of a run's steps and calls, and the user turns that Claude answered."""

    ends: dict[str, Restored] = field(default_factory=dict[str, Restored])
    turns: dict[str, str] = field(default_factory=dict[str, str])

    def copy(self) -> "RunRecords":
        """Return the same records, to be changed apart from these."""
        return RunRecords(dict(self.ends), dict(self.turns))

    def lay(self, added: "Added") -> None:
        """Take what a later workflow run added."""
        for position in added.dropped:
            self.ends.pop(position, None)
        self.ends.update(added.ends)
        self.turns.update(added.turns)

    def conversation(self, head: Head) -> Conversation:
        """Rebuild the conversation up to `head`. Raises `HistoryGap` where these do not tell it."""
        beginning = self.ends.get(BEGINNING)
        if beginning is None or beginning.result is None:
            raise _gap("found no beginning of the run")
        frozen = Opening.model_validate_json(beginning.result).frozen
        turns = {step: Turn.model_validate_json(text) for step, text in self.turns.items()}
        ends = {step: self.ends[step].result for step in turns if step in self.ends}
        replies = {step: ClaudeReply.model_validate_json(end) for step, end in ends.items() if end}
        try:
            return transcript.conversation(head, frozen, replies, turns)
        except LedgerGap as gap:
            raise _gap(str(gap)) from gap

    def beyond(self, earlier: "RunRecords") -> "Added":
        """Return what makes these of earlier ones."""
        return Added(
            ends=_changed(self.ends, earlier.ends),
            turns=_changed(self.turns, earlier.turns),
            # A doubt that is tried again has no end any more, and must not come back as one.
            dropped=tuple(position for position in earlier.ends if position not in self.ends),
        )


@dataclass(frozen=True)
class Added:
    """What a segment holds."""

    ends: Mapping[str, Restored]
    turns: Mapping[str, str]
    dropped: tuple[str, ...] = ()
    """Positions whose earlier end no longer stands."""

    def pack(self) -> bytes:
        """Return it as bytes: compressed JSON."""
        ends = {position: _sparse(end) for position, end in self.ends.items()}
        parts = {"records": ends, "turns": self.turns, "dropped": self.dropped}
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
            return cls(ends, raw["turns"], tuple(raw["dropped"]))
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(repr(error)) from error


async def laid_over(converter: DataConverter, references: tuple[str, ...]) -> RunRecords:
    """Fetch segments, oldest first, and lay each over those before it. Raises `PayloadError`."""
    whole = RunRecords()
    for reference in references:
        packed = await segments.fetch(converter, reference)
        whole.lay(await asyncio.to_thread(Added.unpack, packed))
    return whole


def _changed(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in now.items() if before.get(name) != value}


def _sparse(end: Restored) -> dict[str, Any]:
    return {name: value for name, value in asdict(end).items() if value not in {None, ""}}


def _gap(found: str) -> HistoryGap:
    return HistoryGap(
        f"the run's own history does not tell its whole conversation: {found}. The run waits. If a "
        "newer Onward wrote the history, start a worker of that one; if Temporal or the payload "
        "folder was restored from a backup, restore both from the same time; or cancel the run"
    )


def _unreadable(found: str) -> PayloadError:
    return PayloadError(
        f"a segment of the conversation cannot be understood: found {found}, expected version "
        f"{_VERSION}. A newer Onward may have written it: run that one; or restore the payload "
        "folder from a backup"
    )
