"""The ledger's table of transitions a second time, in plain Python: what `ledger.lua` must do.

Written from the table, not from the script, so that the two can disagree. One step of one run.
Time is one bit: whether the lease of the claim is over.
"""

from dataclasses import dataclass, replace

from onward.messages import Witness


@dataclass(frozen=True)
class Rec:
    """What matters of a record."""

    st: str
    own: str
    fp: str
    n: int = 0
    ms: bool = False
    text: str = ""
    """Result or error."""


@dataclass(frozen=True)
class Said:
    """An answer: the verdict, and what comes with it."""

    verdict: str
    text: str = ""
    n: int = 0
    ms: bool = False
    turn: str | None = None


@dataclass
class Model:
    """State and transitions. `claude`: the step is one of Claude's, with a user turn."""

    cls: str
    strict: bool
    claude: bool
    inc: str
    nonce: str = ""
    rec: Rec | None = None
    alive: bool = False
    turn: str | None = None

    @property
    def again(self) -> bool:
        return self.cls != "at_most_once"

    def wipe(self) -> None:
        self.nonce, self.rec, self.turn = "", None, None

    def trusted(self, wit: Witness) -> bool:
        same = wit.nonce != "" and wit.nonce == self.nonce
        return same and (self.strict or wit.inc == self.inc)

    def claim(
        self, token: str, fp: str, wit: Witness, *, alive: bool, lineage: bool, turn: str
    ) -> Said:
        rec = self.rec
        if rec and rec.fp != fp:
            return Said("mismatch")
        if self.claude and not self.nonce and not lineage:
            return Said("gap")
        if rec is None:
            return self._claim_absent(token, fp, self.trusted(wit), alive=alive, turn=turn)
        if rec.st == "open":
            return self._take(replace(rec, own=token), alive=alive, turn=turn)
        if rec.st == "claimed":
            return self._claim_claimed(rec, token, alive=alive, turn=turn)
        return self._found(rec)

    def _claim_absent(self, token: str, fp: str, trusted: bool, *, alive: bool, turn: str) -> Said:
        if trusted or self.again:
            return self._take(Rec("", token, fp, ms=not trusted), alive=alive, turn=turn)
        self.rec = Rec("doubt", "", fp, 0, ms=True)
        return self._found(self.rec)

    def _claim_claimed(self, rec: Rec, token: str, *, alive: bool, turn: str) -> Said:
        if rec.own == token:
            self.alive = alive
            return self._found(rec)
        if self.alive:
            return replace(self._found(rec), verdict="busy")
        if self.again:
            return self._take(replace(rec, own=token, ms=True), alive=alive, turn=turn)
        self.rec = replace(rec, st="doubt")
        return self._found(self.rec)

    def _take(self, rec: Rec, *, alive: bool, turn: str) -> Said:
        self.rec, self.alive = replace(rec, st="claimed", n=rec.n + 1), alive
        if self.claude and self.turn is None:
            self.turn = turn
        return self._found(self.rec)

    def _found(self, rec: Rec) -> Said:
        return Said(rec.st, rec.text, rec.n, rec.ms, self.turn if self.claude else None)

    def renew(self, token: str, fp: str, *, alive: bool) -> Said:
        rec = self.rec
        if rec and rec.fp != fp:
            return Said("mismatch")
        if rec and rec.st == "claimed" and rec.own == token:
            self.alive = alive
            return Said("claimed")
        return Said("fenced")

    def complete(self, token: str, fp: str, text: str, turn: str, *, lineage: bool) -> Said:
        rec = self.rec
        if rec and rec.fp != fp:
            return Said("mismatch")
        if not rec or rec.st == "doubt" or (rec.st in ("claimed", "open") and rec.own == token):
            self.rec = rec = Rec("done", token, fp, rec.n if rec else 0, text=text)
            self.turn = turn if self.claude else None
        if rec.st not in ("done", "failed"):
            return Said("fenced")
        if rec.st == "done" and self.claude and not self.nonce and not lineage:
            return Said("gap")
        return Said(rec.st, rec.text, turn=self.turn if self.claude else None)

    def fail(self, token: str, fp: str, text: str) -> Said:
        rec = self.rec
        if rec and rec.fp != fp:
            return Said("mismatch")
        if rec and rec.st in ("done", "failed"):
            return Said(rec.st, rec.text)
        if rec and rec.own == token and rec.st == "claimed" and rec.ms and self.cls != "read":
            self.rec = replace(rec, st="doubt")
            return Said("doubt")
        late = rec and rec.st == "doubt" and not self.again and not rec.ms
        if rec and rec.own == token and (rec.st == "claimed" or late):
            self.rec = replace(rec, st="failed", text=text, ms=False)
            return Said("failed", text)
        return Said("fenced")

    def doubt(self, token: str, fp: str) -> Said:
        rec = self.rec
        if rec and rec.fp != fp:
            return Said("mismatch")
        if rec is None:
            self.rec = Rec("doubt", token, fp, 0, ms=True)
        elif rec.st == "claimed" and rec.own == token:
            self.rec = replace(rec, st="doubt")
        elif rec.st in ("claimed", "open"):
            return Said("fenced")
        assert self.rec
        return Said(self.rec.st, self.rec.text)

    def release(self, token: str, fp: str, *, maybe: bool, count: bool) -> Said:
        rec = self.rec
        if rec and rec.fp != fp:
            return Said("mismatch")
        if not rec or rec.own != token or rec.st not in ("claimed", "open"):
            return Said("fenced")
        if rec.st == "claimed":
            n = rec.n if count else rec.n - 1
            self.rec = replace(rec, st="open", ms=rec.ms or maybe, n=n)
        return Said("open")

    def restore(self, st: str, fp: str, text: str, turn: str | None) -> Said:
        rec = self.rec
        same = rec if rec and rec.fp == fp else None
        if st == "doubt" and same and same.st in ("done", "failed"):
            return Said("restored")
        ms = st == "doubt" and (same.ms if same else True)
        kept = text if st != "doubt" else ""
        self.rec = Rec(st, "", fp, same.n if same else 0, ms=ms, text=kept)
        self.turn = turn or self.turn
        return Said("restored")
