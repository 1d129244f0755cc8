"""The Lua script and a model of it, side by side: same operations, same answers, same records.

A failure prints its seed and the operations that led to it; `LEDGER_SEED` runs one seed alone.
"""

import os
from collections import Counter
from random import Random
from typing import Any

import pytest
from ledger_model import Model, Rec, Said
from ledger_story import EVERY, FP, LONG_MS, OTHER_FP, OVER_MS, STEP, Story, new_story

import onward.ledger
from onward.errors import LedgerGap
from onward.ledger import Restored, Verdict
from onward.messages import EffectClass, Witness
from onward.records import Ending

OPS_IN_A_SEQUENCE, SEQUENCES = 30, 200
ONE_SEED = os.environ.get("LEDGER_SEED")
WEIGHTS = {
    "claim": 8,
    "release": 4,
    **dict.fromkeys(("complete", "fail", "doubt"), 2),
    **dict.fromkeys(("renew", "restore", "begin", "lease_over", "wipe", "renonce"), 1),
}


class Diverged(AssertionError):
    """The script and the model do not agree."""


class Pair:
    """The real ledger and the model, given the same random operations."""

    def __init__(self, story: Story, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  (repeatable, not secret)
        self.story, self.seed = story, seed
        self.claude = self.random.random() < 0.25
        self.cls: EffectClass = "read" if self.claude else self.random.choice(EVERY)
        self.strict = self.random.random() < 0.5
        self.lineage = self.random.random() < 0.25
        story.ledger = onward.ledger.Ledger(story.redis, story.run, strict=self.strict)
        self.witnesses = [story.witness, Witness(nonce="", inc="", run_id="")]
        self.model = Model(
            self.cls, self.strict, self.claude, story.witness.inc, story.witness.nonce
        )
        self.log: list[str] = []
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        for _ in range(OPS_IN_A_SEQUENCE):
            op = self.random.choices(names, weights)[0]
            real, expected = await getattr(self, f"do_{op}")()
            self.log.append(f"{op}: {expected}")
            self.seen[f"{self.cls} {op} {expected.verdict}"] += 1
            self._compare(real, expected)
            stored = self.model.rec, self.model.turn, self.model.nonce
            self._compare(await self._stored(), stored)

    def _compare(self, real: object, expected: object) -> None:
        if real != expected:
            story = "\n  ".join(self.log)
            raise Diverged(
                f"seed {self.seed} ({self.cls}, strict={self.strict}, claude={self.claude}):\n"
                f"  {story}\nmodel {expected}\nLua   {real}"
            )

    # ---- one operation on both; returns both answers

    def _who(self) -> dict[str, Any]:
        fp = OTHER_FP if self.random.random() < 0.1 else FP
        return {"fp": fp, "token": self.random.choice("abc")}

    async def do_claim(self) -> tuple[Said, Said]:
        who, alive = self._who(), self.random.random() < 0.5
        wit = self.random.choice([*self.witnesses, self.witnesses[0], self.witnesses[-1]])
        if self.random.random() < 0.2:
            wit = wit.model_copy(update={"inc": "before:restart"})
        turn = f"turn of {who['token']}"
        expected = self.model.claim(
            who["token"], who["fp"], wit, alive=alive, lineage=self.lineage, turn=turn
        )
        asked: dict[str, Any] = {**who, "witness": wit, "lineage": self.lineage}
        asked |= {"lease_ms": LONG_MS if alive else OVER_MS, "turn": turn if self.claude else None}
        try:
            got = await self.story.ledger.claim(STEP, cls=self.cls, **asked)
        except LedgerGap:
            return Said("gap"), expected
        real = Said(got.verdict, got.result, got.requests, got.may_have_sent, got.turn)
        return real, expected

    async def do_renew(self) -> tuple[Said, Said]:
        who, alive = self._who(), self.random.random() < 0.5
        got = await self.story.ledger.renew(STEP, **who, lease_ms=LONG_MS if alive else OVER_MS)
        return _said(got), self.model.renew(who["token"], who["fp"], alive=alive)

    async def do_complete(self) -> tuple[Said, Said]:
        who, text = self._who(), self._text()
        turn = f"turn of {who['token']}"
        expected = self.model.complete(who["token"], who["fp"], text, turn, lineage=self.lineage)
        if self.claude:
            who |= {"turn": turn, "lineage": self.lineage}
        try:
            got = await self.story.ledger.complete(STEP, cls=self.cls, result=text, **who)
        except LedgerGap:
            return Said("gap"), expected
        turn_told = got.turn if got.verdict in ("done", "failed") else None
        return Said(got.verdict, got.result, turn=turn_told), expected

    async def do_fail(self) -> tuple[Said, Said]:
        who, text = self._who(), self._text()
        got = await self.story.ledger.fail(STEP, cls=self.cls, error=text, **who)
        return _said(got), self.model.fail(who["token"], who["fp"], text)

    async def do_doubt(self) -> tuple[Said, Said]:
        who = self._who()
        got = await self.story.ledger.doubt(STEP, cls=self.cls, why="why", **who)
        return _said(got), self.model.doubt(who["token"], who["fp"])

    async def do_release(self) -> tuple[Said, Said]:
        who, maybe, count = self._who(), self.random.random() < 0.5, self.random.random() < 0.5
        got = await self.story.ledger.release(STEP, **who, maybe=maybe, count=count)
        expected = self.model.release(who["token"], who["fp"], maybe=maybe, count=count)
        return _said(got), expected

    async def do_restore(self) -> tuple[Said, Said]:
        fp, text = self._who()["fp"], self._text()
        endings: tuple[Ending, ...] = ("done", "failed", "doubt")
        st = self.random.choice(endings)
        turn = "turn in history" if self.claude and st == "done" else None
        record = Restored(st, fp, self.cls, result=None if st == "doubt" else text)
        await self.story.ledger.restore({STEP: record}, {STEP: turn} if turn else {})
        return Said("restored"), self.model.restore(st, fp, text, turn)

    async def do_begin(self) -> tuple[Said, Said]:
        given = self.random.choice([*self.witnesses, None])
        found = await self.story.ledger.begin(given, reset_lineage=self.lineage)
        if self.lineage:
            return Said(found.nonce), Said(given.nonce if given else "")
        self.model.nonce = self.model.nonce or found.nonce
        self.witnesses.append(found)
        return Said(found.nonce), Said(self.model.nonce)

    async def do_lease_over(self) -> tuple[Said, Said]:
        field = f"s:{STEP}"
        raw = await self.story.redis.hget(self.story.key, field)
        if raw and self.model.rec and self.model.rec.st == "claimed":
            head, tail = raw.split(b'"exp":')
            cut = min(at for at in (tail.find(b","), tail.find(b"}")) if at >= 0)
            await self.story.redis.hset(self.story.key, field, head + b'"exp":1' + tail[cut:])
            self.model.alive = False
        return Said("over"), Said("over")

    async def do_wipe(self) -> tuple[Said, Said]:
        await self.story.wipe()
        self.model.wipe()
        return Said("wiped"), Said("wiped")

    async def do_renonce(self) -> tuple[Said, Said]:
        """Give the dataset another birth nonce, as the runbook does after a backup."""
        nonce = f"rotated {len(self.log)}"
        await self.story.redis.hset(self.story.key, "_ds", nonce)
        self.model.nonce = nonce
        return Said("rotated"), Said("rotated")

    # ---- what is stored

    def _text(self) -> str:
        text = f'"{len(self.log)}"'
        return text if self.random.random() < 0.9 else text[:-1] + "x" * 70_000 + '"'

    async def _stored(self) -> tuple[Rec | None, str | None, str]:
        found = await self.story.ledger.records(STEP)
        nonce = found.witness.nonce if found.witness else ""
        rec = found.records.get(STEP)
        if rec is None:
            return None, found.turns.get(STEP), nonce
        kept = Rec(rec.st, rec.own, rec.fp, rec.requests, rec.may_have_sent, rec.result)
        return kept, found.turns.get(STEP), nonce


def _said(got: Verdict) -> Said:
    return Said(got.verdict, got.result)


async def _sequences(url: str, seeds: range | list[int]) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        async with new_story(url) as story:
            pair = Pair(story, seed)
            await pair.run()
            seen += pair.seen
            await story.wipe()
    return seen


@pytest.mark.timeout(60)
async def test_the_script_does_what_the_table_says(redis_url: str) -> None:
    """6,000 random operations, faults among them: same answers and records as the model."""
    seeds = [int(ONE_SEED)] if ONE_SEED else range(SEQUENCES)
    seen = await _sequences(redis_url, seeds)
    if not ONE_SEED:
        # The walk must not miss a corner: all of these together are the table.
        assert len(seen) > 100, sorted(seen)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_the_script_does_what_the_table_says_for_long(redis_url: str) -> None:
    """The same, 150,000 operations."""
    await _sequences(redis_url, range(SEQUENCES, 25 * SEQUENCES + SEQUENCES))


MUTANTS = {
    "absent is taken for never sent": ("if not lost and trusted(ds)", "if not lost"),
    "trust without the nonce": ("ds == given.nonce\n", "ds ~= ''\n"),
    "trust without the incarnation": ("given.strict == '1' or ", "true or "),
    "at_most_once is taken over": ("return doubt(rec, 'owner_lost')", "return take(rec, 1)"),
    "a living claim is taken over": ("if rec.exp > now then", "if false then"),
    "a takeover forgets the earlier request": ("return take(rec, 1)", "return take(rec, 0)"),
    "a claim forgets an open step's request": ("take(rec, rec.ms)", "take(rec, 0)"),
    "no owner check in complete": ("if busy and rec.own ~= given.token", "if false"),
    "no owner check in renew": (
        "rec.st == 'claimed' and rec.own == given.token) then",
        "true) then",
    ),
    "no owner check in release": ("if not rec or rec.own ~= given.token", "if not rec"),
    "no owner check in fail": ("local own = rec and rec.own == given.token", "local own = rec"),
    "the last result wins": ("function ops.complete(rec)", "function ops.complete(rec) rec = nil"),
    "refused is failed although an earlier request may land": (
        "if not late and rec.ms == 1",
        "if false",
    ),
    "a repeated fail takes a doubt back": ("and rec.ms == 0 and not", "and not"),
    "no late truth": ("(rec.st == 'claimed' or rec.st == 'open')\n", "rec.st ~= 'done'\n"),
    "release forgets maybe": ("if given.maybe == '1' then", "if false then"),
    "release always counts": ("if given.count == '0'", "if false"),
    "a second release counts again": (
        "if rec.st == 'open' then return answer('open', rec) end   --",
        "--",
    ),
    "no fingerprint check": ("if rec and op ~= 'restore' and rec.fp ~= given.fp", "if false"),
    "restore hides a late truth": ("if given.st == 'doubt' and settled(same)", "if false"),
    "a doubt yields to another request's done": (
        "settled(same) then return { 'verdict', same.st }",
        "settled(rec) then return { 'verdict', rec.st }",
    ),
    "a missing nonce is no gap": ("if given.needs_ds == '1' and not ds", "if false"),
    "begin under lineage makes a nonce": ("if given.lineage == '1' then", "if false then"),
    "begin makes a second nonce": ("if not ds then ds =", "if true then ds ="),
    "a reply leaves its turn out": (
        "if given.turn then save(new, 'turn:' .. given.step, given.turn) else",
        "do",
    ),
    "a later claim freezes another turn": (
        "and redis.call('HEXISTS', hash, 'turn:' .. given.step) == 0",
        "",
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", MUTANTS)
async def test_a_broken_script_is_caught(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The comparison can see: each broken rule shows within the walks of the test above."""
    before, after = MUTANTS[name]
    script: str = vars(onward.ledger)["_SCRIPT"]
    assert before in script, "the mutant no longer fits the script"
    monkeypatch.setattr("onward.ledger._SCRIPT", script.replace(before, after))
    with pytest.raises(Diverged):
        await _sequences(redis_url, range(SEQUENCES))
