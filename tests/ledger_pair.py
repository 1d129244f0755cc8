"""The real ledger and the model of it, given the same random operations."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from random import Random
from typing import Any, cast, get_args

from ledger_model import Place, Protocol, Rec, Said, Wit, wipe
from ledger_story import FP, LONG_MS, OTHER_FP, OVER_MS, Story

import onward.ledger
from onward.errors import LedgerGap
from onward.ledger import Claim, Resolved, Restored, Verdict
from onward.local_services import RedisServer
from onward.messages import EffectClass, Witness
from onward.records import Ending

OPS_IN_A_SEQUENCE = 40
RESTARTS_EVERY = 25
"""In one of so many sequences the server is killed and started again."""
WEIGHTS = {
    "claim": 5,
    **dict.fromkeys(("release", "complete", "fail", "again"), 2),
    **dict.fromkeys(("renew", "doubt", "resolve", "restore", "next_step", "begin"), 1),
    **dict.fromkeys(("lease_over", "wipe", "renonce", "promote"), 1),
}
_LIKELY = {"done": "next_step", "failed": "next_step", "doubt": "resolve", "open": "claim"}
"""What leads on from a state: half of the operations, lest most of them find a step that ended."""
_UNKNOWN = cast("EffectClass", "of a newer release")
_CLASSES: tuple[EffectClass, ...] = (*get_args(EffectClass), _UNKNOWN)
_BEARS_WITNESS = ("claimed", "busy", "done", "failed", "doubt")


class Diverged(AssertionError):
    """The script and the model do not agree."""


class Pair:
    """A run in both, step after step. Raises Diverged with the operations that led to it."""

    def __init__(self, story: Story, server: RedisServer, seed: int) -> None:
        # Two of them: `again` winds the second one back, and would choose itself for ever.
        self.choice, self.random = Random(f"op {seed}"), Random(seed)  # noqa: S311  (no secrets)
        self.story, self.server, self.seed = story, server, seed
        claude = self._chance(0.2)
        self.cls: EffectClass = "read" if claude else self.random.choice(_CLASSES)
        self.model = Protocol(self.cls, strict=self._chance(0.5), claude=claude)
        self.lineage = self._chance(0.25)
        self.other_cls: EffectClass = (
            self.random.choice(_CLASSES) if self._chance(0.5) else self.cls
        )
        """Of the tool in another release, which runs beside this one."""
        story.ledger = onward.ledger.Ledger(story.redis, story.run, strict=self.model.strict)
        self.witnesses = [story.witness, Witness(nonce="", inc="", run_id="")]
        self.place = Place(story.witness.nonce, story.witness.inc)
        self.step = 1
        self.alive = False
        self.doubts: dict[Hashable, int] = {}
        """When each doubt began by the server's clock, by the model's name of it."""
        self.fences: dict[Hashable, int] = {}
        """The script's fence of each claim, by the model's name of it."""
        self.log: list[str] = []
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        restart = OPS_IN_A_SEQUENCE // 2 if self.seed % RESTARTS_EVERY == 0 else None
        last, before = "claim", self.random.getstate()
        for number in range(OPS_IN_A_SEQUENCE):
            chosen = "restart" if number == restart else self._next_op()
            op = last if chosen == "again" else chosen
            if chosen == "again":  # a client whose reply was lost: the same, asked twice
                self.random.setstate(before)
            last, before = op, self.random.getstate()
            real, expected = await getattr(self, f"do_{op}")()
            self.log.append(f"{op}: {expected}")
            self.seen[f"{self.cls} {op} {expected.verdict}"] += 1
            self._compare(real, expected)
            self._compare(await self._stored(), self.place)

    def _next_op(self) -> str:
        rec = self.place.rec
        likely = _LIKELY.get(rec.st if rec else "open")
        if likely and self.choice.random() < 0.5:
            return likely
        return self.choice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]

    def _compare(self, real: object, expected: object) -> None:
        if real != expected:
            story = "\n  ".join(self.log)
            raise Diverged(
                f"seed {self.seed} ({self.model}, lineage={self.lineage}):\n"
                f"  {story}\nmodel {expected}\nLua   {real}"
            )

    # ---- operations of an attempt; each returns the script's answer and the model's

    async def do_claim(self) -> tuple[Said, Said]:
        who, cls, alive = self._who(owner=0.1), self._cls(), self._chance(0.5)
        wit = self.random.choice([*self.witnesses, self.witnesses[0], self.witnesses[-1]])
        more: dict[str, Any] = {"lineage": self.lineage, "turn": f"turn of {who['token']}"}
        if self._chance(0.1):
            wit = wit.model_copy(update={"strict": False})
        believed = replace(self._model(cls), strict=self.model.strict and wit.strict)
        named: dict[str, Any] = {"at": self._at, "fence": f"claim {len(self.log)}"}
        expected, after = believed.claim(
            self.place, **who, wit=_wit(wit), over=not self.alive, **named, **more
        )
        # The lease is that of whoever holds the claim after this.
        if expected.verdict == "claimed":
            self.alive = alive
        lease_ms = LONG_MS if alive else OVER_MS
        asked: Any = {**who, "cls": cls, "witness": wit, "lease_ms": lease_ms, **self._claude(more)}
        return await self._answer("claim", asked, expected, after)

    async def do_renew(self) -> tuple[Said, Said]:
        who, alive = self._who(), self._chance(0.5)
        expected, after = self.model.renew(self.place, **who)
        if expected.verdict == "claimed":
            self.alive = alive
        lease_ms = LONG_MS if alive else OVER_MS
        return await self._answer("renew", {**who, "lease_ms": lease_ms}, expected, after)

    async def do_complete(self) -> tuple[Said, Said]:
        who, cls, text = self._who(), self._cls(), self._text()
        given = self.random.choice(self.witnesses)
        more: dict[str, Any] = {"turn": f"turn of {who['token']}", "lineage": self.lineage}
        expected, after = self._model(cls).complete(
            self.place, **who, text=text, wit=_wit(given), **more
        )
        asked: Any = {**who, "cls": cls, "result": text, **self._claude({**more, "witness": given})}
        return await self._answer("complete", asked, expected, after)

    async def do_fail(self) -> tuple[Said, Said]:
        who, cls, text = self._who(), self._cls(), self._text()
        fence = self._fence()
        expected, after = self._model(cls).fail(
            self.place, **who, text=text, fence=fence, at=self._at
        )
        asked: Any = {**who, "cls": cls, "error": text, "fence": self.fences.get(fence, 0)}
        return await self._answer("fail", asked, expected, after)

    async def do_doubt(self) -> tuple[Said, Said]:
        who, cls = self._who(), self._cls()
        expected, after = self._model(cls).doubt(self.place, **who, at=self._at)
        return await self._answer("doubt", {**who, "cls": cls, "why": "why"}, expected, after)

    async def do_release(self) -> tuple[Said, Said]:
        asked: Any = {**self._who(), "maybe": self._chance(0.5), "count": self._chance(0.5)}
        expected, after = self.model.release(self.place, **asked)
        return await self._answer("release", asked, expected, after)

    # ---- what people, history and `begin` say

    async def do_resolve(self) -> tuple[Said, Said]:
        fp, cls, text, early = self._who()["fp"], self._cls(), self._text(), self._chance(0.3)
        rec = self.place.rec
        stands = rec.at if rec and rec.at is not None and self._chance(0.8) else None
        at = stands or self._some_doubt()
        to: Any = self.random.choice(["done", "failed", "retry", "retry"])
        asked: Any = {"fp": fp, "to": to}
        expected, after = self._model(cls).resolve(
            self.place, **asked, at=at, early=early, text=text
        )
        # Less than none: the clock of a busy machine may be set back between two operations.
        quarantine_ms = LONG_MS if early else -LONG_MS
        asked |= {"cls": cls, "at_ms": self.doubts[at], "quarantine_ms": quarantine_ms}
        return await self._answer(
            "resolve", {**asked, "by": "a person", "result": text}, expected, after
        )

    async def do_restore(self) -> tuple[Said, Said]:
        fp, cls, text, at = self._who()["fp"], self._cls(), self._text(), self._some_doubt()
        endings: tuple[Ending, ...] = (*get_args(Ending), "doubt")
        st = self.random.choice(endings)
        turn = "turn in history" if self.model.claude and st == "done" else None
        result = None if st == "doubt" else text
        _, self.place = self._model(cls).restore(
            self.place, st=st, fp=fp, text=text, at=at, turn=turn
        )
        at_ms = self.doubts[at] if st == "doubt" else None
        record = Restored(st, fp, cls, result=result, at_ms=at_ms)
        step = str(self.step)
        await self.story.ledger.restore({step: record}, {step: turn} if turn else {})
        return Said("restored"), Said("restored")

    async def do_next_step(self) -> tuple[Said, Said]:
        self.step += 1
        self.place = self.place._replace(rec=None, turn=None)
        self.doubts.clear()
        self.fences.clear()
        return Said("next"), Said("next")

    async def do_begin(self) -> tuple[Said, Said]:
        given = self.random.choice([*self.witnesses, None])
        found = await self.story.ledger.begin(given, reset_lineage=self.lineage)
        expected, self.place = self.model.begin(
            self.place, nonce=found.nonce, wit=_wit(given), lineage=self.lineage
        )
        self.witnesses.append(found)
        return Said("begun", wit=_wit(found)), expected

    # ---- faults

    async def do_lease_over(self) -> tuple[Said, Said]:
        field = f"s:{self.step}"
        raw = await self.story.redis.hget(self.story.key, field)
        if raw and self.place.rec and self.place.rec.st == "claimed":
            head, tail = raw.split(b'"exp":')
            cut = min(at for at in (tail.find(b","), tail.find(b"}")) if at >= 0)
            await self.story.redis.hset(self.story.key, field, head + b'"exp":1' + tail[cut:])
            self.alive = False
        return Said("over"), Said("over")

    async def do_wipe(self) -> tuple[Said, Said]:
        await self.story.wipe()
        self.place = wipe(self.place)
        # A name may come again now, within one millisecond, as nobody but this test is.
        self.doubts.clear()
        self.fences.clear()
        return Said("wiped"), Said("wiped")

    async def do_renonce(self) -> tuple[Said, Said]:
        """Give the dataset another birth nonce, as the runbook does after a backup."""
        nonce = f"rotated {len(self.log)}"
        await self.story.redis.hset(self.story.key, "_ds", nonce)
        self.place = self.place._replace(nonce=nonce)
        return Said("rotated"), Said("rotated")

    async def do_promote(self) -> tuple[Said, Said]:
        """Make the server a replica, and a primary again: another incarnation, all data kept."""
        await self.story.redis.replicaof("127.0.0.1", "1")
        await self.story.redis.replicaof("NO", "ONE")
        return await self._another_incarnation()

    async def do_restart(self) -> tuple[Said, Said]:
        await self.server.restart()
        await self.story.redis.connection_pool.disconnect()
        return await self._another_incarnation()

    async def _another_incarnation(self) -> tuple[Said, Said]:
        info = await self.story.redis.info()
        inc = f"{info['run_id']}:{info['master_replid']}"
        same, self.place = inc == self.place.inc, self.place._replace(inc=inc)
        return Said("same" if same else "another"), Said("another")

    # ---- what an operation is given

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _who(self, owner: float = 0.5) -> dict[str, Any]:
        rec = self.place.rec
        own = rec.own if rec and self._chance(owner) else None
        token = own or self.random.choice("abc")
        return {"fp": OTHER_FP if self._chance(0.1) else FP, "token": token}

    def _cls(self) -> EffectClass:
        """Pick the release that asks; of Claude's steps the class never changes."""
        other = not self.model.claude and self._chance(0.5)
        return self.other_cls if other else self.cls

    def _model(self, cls: EffectClass) -> Protocol:
        return replace(self.model, cls=cls)

    def _claude(self, more: dict[str, Any]) -> dict[str, Any]:
        if self.model.claude:
            return more
        return {name: value for name, value in more.items() if name not in ("turn", "witness")}

    def _text(self) -> str:
        text = f'"{self.random.randrange(1_000_000)}"'
        return text if self._chance(0.9) else text[:-1] + "x" * 70_000 + '"'

    @property
    def _at(self) -> str:
        return f"doubt {len(self.log)}"

    def _fence(self) -> Hashable:
        """Name the claim that stands, or one of before."""
        if self.place.rec and self._chance(0.8):
            standing: Hashable = self.place.rec.fence
            return standing
        return self.random.choice([None, *self.fences])

    def _some_doubt(self) -> Hashable:
        """Name a doubt of before, or one that only history knows."""
        if self.doubts and self._chance(0.5):
            return self.random.choice(list(self.doubts))
        self.doubts[f"in history {len(self.log)}"] = 1 + len(self.log)
        return f"in history {len(self.log)}"

    # ---- what came of it

    async def _answer(
        self, op: str, asked: dict[str, Any], expected: Said, after: Place
    ) -> tuple[Said, Said]:
        self.place = after
        try:
            got = await getattr(self.story.ledger, op)(str(self.step), **asked)
        except LedgerGap:
            return Said("gap"), expected
        return self._said(got, expected), expected

    def _said(self, got: Claim | Verdict | Resolved, expected: Said) -> Said:
        at = self._named(got.at_ms, expected.at)
        said = Said(got.verdict, got.result or None, at=at)
        if isinstance(got, Claim):
            said = said._replace(n=got.requests, ms=got.may_have_sent)
            if got.verdict == "claimed":
                said = said._replace(fence=self._claim_named(got.fence, expected.fence))
        if isinstance(got, Resolved) or not self.model.claude or got.verdict not in _BEARS_WITNESS:
            return said
        return said._replace(turn=got.turn, wit=_wit(got.witness))

    def _named(self, at_ms: int, expected: Hashable) -> Hashable:
        """Return the model's name of a doubt, learnt when the doubt begins."""
        if not at_ms:
            return None
        if expected is not None:
            self.doubts.setdefault(expected, at_ms)
        names = {began: name for name, began in self.doubts.items()}
        return names.get(at_ms, f"a doubt of {at_ms}")

    def _claim_named(self, fence: int, expected: Hashable) -> Hashable:
        """Return the model's name of a claim, learnt when it is made."""
        if expected is not None:
            self.fences.setdefault(expected, fence)
        return {known: name for name, known in self.fences.items()}.get(fence)

    async def _stored(self) -> Place:
        found = await self.story.ledger.records(str(self.step))
        rec, nonce = (
            found.records.get(str(self.step)),
            found.witness.nonce if found.witness else None,
        )
        place = Place(nonce, self.place.inc, None, found.turns.get(str(self.step)))
        if rec is None:
            return place
        expected = self.place.rec.at if self.place.rec else None
        at = self._named(rec.at_ms, expected) if rec.st == "doubt" else None
        kept = Rec(rec.st, rec.own or None, rec.fp, rec.cls, rec.requests, rec.may_have_sent)
        by_claim = rec.own and rec.st in ("claimed", "open", "doubt")
        fence = self._claim_named(rec.fence, None) if by_claim else None
        return place._replace(rec=kept._replace(text=rec.result or None, at=at, fence=fence))


def _wit(witness: Witness | None) -> Wit | None:
    return Wit(witness.nonce, witness.inc) if witness and witness.nonce else None
