"""The project's model of the ledger: its table of transitions as pure functions.

Written apart from `ledger.lua`, so that the two can disagree. The conformance test
holds the script against it; the explorers in tests/protocol take every interleaving of it. It is of
one step of one run. Nothing here knows the time: whether a lease or a quarantine is over, and the
name `at` of a doubt that may begin, are given with each operation.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

ENDED = ("done", "failed")
SENDS_AGAIN = ("read", "keyed", "transactional", "sealed", "timed")
REFUSAL_IS_PROOF = ("read", "sealed")
"""Classes in which no earlier request can land: a read does nothing, a seal shuts it out."""


class Wit(NamedTuple):
    """A witness: the dataset, and the incarnation of the server that held it."""

    nonce: Hashable
    inc: Hashable


class Rec(NamedTuple):
    """What matters of a record."""

    st: str
    own: Hashable
    fp: Hashable
    cls: str
    n: int = 0
    ms: bool = False
    text: Hashable = None
    """Result or error."""
    at: Hashable = None
    """Of a doubt: its name."""
    fence: Any = None
    """Of the last claim: its name."""


class Place(NamedTuple):
    """What one Redis holds of the run and the step."""

    nonce: Hashable = None
    inc: Hashable = None
    rec: Rec | None = None
    turn: Hashable = None

    @property
    def wit(self) -> Wit | None:
        return None if self.nonce is None else Wit(self.nonce, self.inc)


class Said(NamedTuple):
    """An answer: the verdict, and what comes with it."""

    verdict: str
    text: Hashable = None
    n: int = 0
    ms: bool = False
    at: Hashable = None
    turn: Hashable = None
    fence: Any = None
    wit: Wit | None = None
    """Of `begin`, and of a step of Claude's: the witness to use from now on."""


Answer = tuple[Said, Place]


@dataclass(frozen=True)
class Rules:
    """The protocol's rules. Each one that is switched is a mutant, and fires twice or worse."""

    own_check: bool = True
    """Only the owner of a claim speaks for the step."""
    fence_check: bool = True
    """A refusal counts under the claim under which it was sent."""
    ms_rule: bool = True
    """A refusal proves nothing while an earlier request may still land."""
    witness: bool = True
    """A lossy server is trusted only as the incarnation that the witness names."""
    absent_fresh: bool = False
    """[mutant] A record that is absent was never written."""
    amo_takeover: bool = False
    """[mutant] at_most_once may send again, like the other classes."""
    timed_doubt: bool = True
    """`timed` on a lossy server that is not trusted ends in doubt."""
    late_truth: bool = True
    """A doubt yields to the attempt that knows."""
    overwrite: bool = False
    """[mutant] The last result wins."""
    fp_check: bool = True
    """Another fingerprint never gets this record's answer."""
    doubt_over_truth: bool = False
    """[mutant] A doubt in history replaces what is recorded as done or failed."""
    doubt_yields_to_other_fp: bool = False
    """[mutant] ... and does not replace what is recorded of another fingerprint."""
    gap_no_ds: bool = True
    """A missing birth nonce is a gap."""
    gap_no_ds_lineage: bool = False
    """[mutant] ... also under reset lineage, where it is missing for ever."""
    lineage_begin_creates: bool = False
    """[mutant] `begin` under reset lineage makes a birth nonce."""
    lineage_begin_finds: bool = False
    """[mutant] `begin` under reset lineage returns the birth nonce that is there."""
    lineage_sees: bool = False
    """[mutant] Under reset lineage a reply hands on the witness that is there."""
    freeze_owner: bool = True
    """Only who gets the claim freezes the user turn."""
    complete_turn: bool = True
    """A reply writes its turn again."""


def wipe(place: Place) -> Place:
    """Lose everything; the server lives."""
    return Place(inc=place.inc)


@dataclass(frozen=True)
class Protocol:
    """The operations on one step: each returns its answer and what the Redis holds after it."""

    cls: str
    strict: bool = True
    claude: bool = False
    """The step is one of Claude's: it has a user turn, and its answers bring a witness."""
    rules: Rules = Rules()

    # ---- who may send

    def trusted(self, place: Place, wit: Wit | None) -> bool:
        if self.rules.absent_fresh:
            return True
        if wit is None or wit.nonce is None or wit.nonce != place.nonce:
            return False
        return self.strict or not self.rules.witness or wit.inc == place.inc

    def sends_again(self, rec: Rec | None) -> bool:
        """Whether sending again is harmless, by the record's class too: it may have changed."""
        classes = {self.cls, rec.cls if rec else self.cls}
        return self.rules.amo_takeover or classes <= set(SENDS_AGAIN)

    def begin(self, place: Place, *, nonce: Hashable, wit: Wit | None, lineage: bool) -> Answer:
        """`nonce`: the one to make; `wit`: the one that was given."""
        rules = self.rules
        if lineage and not (
            rules.lineage_begin_creates or (rules.lineage_begin_finds and place.nonce)
        ):
            return Said("begun", wit=wit), place
        if place.nonce is None:
            place = place._replace(nonce=nonce)
        return Said("begun", wit=place.wit), place

    def claim(
        self,
        place: Place,
        *,
        token: Hashable,
        fp: Hashable,
        wit: Wit | None,
        over: bool,
        at: Hashable = None,
        fence: Hashable = None,
        lineage: bool = False,
        turn: Hashable = None,
    ) -> Answer:
        """`over`: the lease of the claim that is there is over.

        `at` names the doubt, and `fence` the claim, that may be made here.
        """
        rec = place.rec
        if self._other(rec, fp):
            return Said("mismatch"), place
        if self._gap(place, lineage):
            return Said("gap"), place
        said, after = self._claim(
            place, Rec("claimed", token, fp, self.cls, fence=fence), wit, over, at
        )
        if self._freezes(said) and after.turn is None:
            after = after._replace(turn=turn)
        return self._with_turn(said, after, wit, lineage), after

    def _claim(self, place: Place, mine: Rec, wit: Wit | None, over: bool, at: Hashable) -> Answer:
        rec = place.rec
        if rec is None:
            return self._claim_absent(place, mine, self.trusted(place, wit), at)
        if rec.st == "open":
            return _take(place, mine, ms=rec.ms)
        if rec.st != "claimed" or rec.own == mine.own:
            return _found(rec), place
        if not over:
            return _found(rec)._replace(verdict="busy", fence=None), place
        if self.sends_again(rec):
            return _take(place, mine, ms=True)
        return self._doubt(place, rec, at)

    def _claim_absent(self, place: Place, mine: Rec, trusted: bool, at: Hashable) -> Answer:
        if trusted:
            return _take(place, mine, ms=False)
        guess = self.cls == "timed" and not self.strict and self.rules.timed_doubt
        if self.sends_again(None) and not guess:
            return _take(place, mine, ms=True)
        return self._doubt(place, mine._replace(own=None, ms=True, fence=None), at)

    def renew(self, place: Place, *, token: Hashable, fp: Hashable) -> Answer:
        rec = place.rec
        if self._other(rec, fp):
            return Said("mismatch"), place
        return Said("claimed" if _owns(rec, token) else "fenced"), place

    # ---- how it ended

    def complete(
        self,
        place: Place,
        *,
        token: Hashable,
        fp: Hashable,
        text: Hashable,
        turn: Hashable = None,
        wit: Wit | None = None,
        lineage: bool = False,
    ) -> Answer:
        rec = place.rec
        if self._other(rec, fp):
            return Said("mismatch"), place
        if self._completes(rec, token):
            rec = Rec("done", token, fp, self.cls, rec.n if rec else 0, text=text)
            kept = turn if self.claude and self.rules.complete_turn else place.turn
            place = place._replace(rec=rec, turn=kept)
        if rec is None or rec.st not in ENDED:
            return Said("fenced"), place
        if rec.st == "done" and self._gap(place, lineage):
            return Said("gap"), place
        return self._with_turn(Said(rec.st, rec.text), place, wit, lineage), place

    def _completes(self, rec: Rec | None, token: Hashable) -> bool:
        if rec is None or self.rules.overwrite:
            return True
        if rec.st == "doubt":
            return self.rules.late_truth or not self.rules.own_check
        mine = rec.own == token or not self.rules.own_check
        return rec.st in ("claimed", "open") and mine

    def fail(
        self,
        place: Place,
        *,
        token: Hashable,
        fp: Hashable,
        text: Hashable,
        fence: Hashable = None,
        at: Hashable = None,
    ) -> Answer:
        """`fence`: the claim under which the request was sent that was refused."""
        rec = place.rec
        if self._other(rec, fp):
            return Said("mismatch"), place
        if rec and rec.st in ENDED:
            return Said(rec.st, rec.text), place
        if self.rules.fence_check and rec and rec.fence != fence:
            return Said("fenced"), place
        # Its own doubt, taken back: the only request there was is known to be refused.
        late = (
            rec
            and rec.st == "doubt"
            and rec.own == token
            and not rec.ms
            and not self.sends_again(rec)
        )
        if self.rules.own_check and not late and not _owns(rec, token):
            return Said("fenced"), place
        rec = rec or Rec("claimed", token, fp, self.cls)
        if rec.ms and self.rules.ms_rule and not {self.cls, rec.cls} <= set(REFUSAL_IS_PROOF):
            said, place = self._doubt(place, rec, at)
            return Said("doubt", at=said.at), place
        failed = Rec("failed", rec.own, fp, self.cls, rec.n, text=text)
        return Said("failed", text), place._replace(rec=failed)

    def doubt(self, place: Place, *, token: Hashable, fp: Hashable, at: Hashable = None) -> Answer:
        rec = place.rec
        if self._other(rec, fp):
            return Said("mismatch"), place
        if rec is None:
            rec = Rec("claimed", token, fp, self.cls, ms=True)
        elif not _owns(rec, token):
            known = rec.st not in ("claimed", "open")
            return Said(rec.st, rec.text, at=rec.at) if known else Said("fenced"), place
        return Said("doubt", at=at), self._doubt(place, rec, at)[1]

    def release(
        self, place: Place, *, token: Hashable, fp: Hashable, maybe: bool, count: bool = True
    ) -> Answer:
        rec = place.rec
        if self._other(rec, fp):
            return Said("mismatch"), place
        if rec is None or rec.own != token or rec.st not in ("claimed", "open"):
            return Said("fenced"), place
        if rec.st == "claimed":
            n = rec.n if count else rec.n - 1
            place = place._replace(rec=rec._replace(st="open", ms=rec.ms or maybe, n=n))
        return Said("open"), place

    # ---- what history and people say

    def resolve(
        self,
        place: Place,
        *,
        fp: Hashable,
        at: Hashable,
        to: str,
        early: bool,
        text: Hashable = None,
    ) -> Answer:
        """Settle the doubt named `at`: `to` done, failed or retry. `early`: within quarantine."""
        rec = place.rec
        if rec is None or rec.fp != fp or rec.st == "claimed":
            return Said("gap"), place
        if rec.st != "doubt":
            return Said(rec.st, rec.text), place
        if rec.at != at:
            return Said("stale", at=rec.at), place
        if early and to != "done":
            return Said("early"), place
        if to == "retry":
            # A new count: else the retry that a person asked for would be given up at once.
            again = rec._replace(st="open", cls=self.cls, n=0, ms=True, at=None)
            return Said("open"), place._replace(rec=again)
        settled = Rec(to, rec.own, fp, self.cls, rec.n, text=text)
        return Said(to, text), place._replace(rec=settled)

    def restore(
        self,
        place: Place,
        *,
        st: str,
        fp: Hashable,
        text: Hashable = None,
        at: Hashable = None,
        turn: Hashable = None,
    ) -> Answer:
        """Write what history says: `st` done, failed or doubt; `at` names the doubt."""
        rec = place.rec
        same = rec if rec and rec.fp == fp else None
        if st == "doubt" and self._outranks_doubt(rec, fp):
            return Said("restored"), place
        ms = st == "doubt" and (same.ms if same else True)
        written = Rec(
            st, None, fp, self.cls, same.n if same else 0, ms, text if st != "doubt" else None
        )
        written = written._replace(at=at if st == "doubt" else None)
        return Said("restored"), place._replace(rec=written, turn=turn or place.turn)

    def _outranks_doubt(self, rec: Rec | None, fp: Hashable) -> bool:
        if rec is None or rec.st not in ENDED or self.rules.doubt_over_truth:
            return False
        return rec.fp == fp or self.rules.doubt_yields_to_other_fp

    # ---- what several operations share

    def _doubt(self, place: Place, rec: Rec, at: Hashable) -> Answer:
        rec = rec._replace(st="doubt", cls=self.cls, text=None, at=at)
        return _found(rec), place._replace(rec=rec)

    def _other(self, rec: Rec | None, fp: Hashable) -> bool:
        return self.rules.fp_check and rec is not None and rec.fp != fp

    def _gap(self, place: Place, lineage: bool) -> bool:
        rule = self.rules.gap_no_ds_lineage if lineage else self.rules.gap_no_ds
        return self.claude and place.nonce is None and rule

    def _freezes(self, said: Said) -> bool:
        return self.claude and (said.verdict == "claimed" or not self.rules.freeze_owner)

    def _with_turn(self, said: Said, place: Place, wit: Wit | None, lineage: bool) -> Said:
        if not self.claude:
            return said
        sees = place.wit or wit if not lineage or self.rules.lineage_sees else wit
        return said._replace(turn=place.turn, wit=sees)


def _owns(rec: Rec | None, token: Hashable) -> bool:
    return rec is not None and rec.st == "claimed" and rec.own == token


def _take(place: Place, mine: Rec, *, ms: bool) -> Answer:
    n = place.rec.n + 1 if place.rec else 1
    rec = mine._replace(n=n, ms=ms)
    return _found(rec), place._replace(rec=rec)


def _found(rec: Rec) -> Said:
    fence = rec.fence if rec.st == "claimed" else None
    return Said(rec.st, rec.text, rec.n, rec.ms, rec.at, fence=fence)
