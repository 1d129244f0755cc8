"""The ledger over a whole run: Claude's steps, restore from history, size, lifetime."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from ledger_story import FP, LONG_MS, OTHER_FP, OVER_MS, STEP, Story, new_story

from onward.errors import LedgerGap, LedgerUnreadable
from onward.ledger import INLINE_BYTES, Restored
from onward.messages import EffectClass

pytestmark = pytest.mark.timeout(30)


@pytest_asyncio.fixture(loop_scope="session")
async def story(redis_url: str) -> AsyncGenerator[Story]:
    """Begin a run of its own."""
    async with new_story(redis_url) as new:
        yield new


# ---- a step of Claude's


async def test_the_user_turn_is_frozen_by_the_first_claim(story: Story) -> None:
    """A retry sends the bytes that were sent before, not what it would compose now."""
    assert (await story.claim("a", "read", OVER_MS, turn="first")).turn == "first"
    assert (await story.claim("b", "read", turn="second")).turn == "first"
    await story.complete("b", "read", turn="first", witness=story.witness)
    assert (await story.claim("c", "read", turn="third")).turn == "first"


async def test_who_does_not_get_the_claim_freezes_nothing(story: Story) -> None:
    """Only the owner of the claim writes the turn."""
    await story.claim("a", "read")
    await story.claim("b", "read", turn="not mine")
    assert (await story.ledger.snapshot()).turns == {}


async def test_a_reply_brings_its_turn_back_after_a_wipe(story: Story) -> None:
    """A recorded reply without the turn that it answers would be no transcript."""
    await story.claim("a", "read", turn="the turn")
    await story.wipe()
    await story.begin()
    done = await story.complete("a", "read", turn="the turn")
    assert (done.verdict, done.turn, done.witness) == ("done", "the turn", story.witness)
    found = await story.claim("b", "read", turn="other")
    assert (found.verdict, found.turn, found.witness) == ("done", "the turn", story.witness)


async def test_a_late_reply_is_answered_with_the_recorded_turn(story: Story) -> None:
    """Reply and turn are adopted together: those of whoever was first."""
    await story.complete("a", "read", result='"first"', turn="its turn")
    late = await story.complete("b", "read", result='"second"', turn="another")
    assert (late.result, late.turn) == ('"first"', "its turn")


async def test_a_missing_nonce_is_a_gap(story: Story) -> None:
    """A wipe between steps is repaired before the calls, so it raises no doubt."""
    await story.wipe()
    with pytest.raises(LedgerGap, match=r"lost .* filled in from the run's history"):
        await story.claim("a", "read", turn="t")
    assert not await story.redis.exists(story.key)


async def test_a_wipe_while_claude_answers_is_a_gap_but_keeps_the_reply(story: Story) -> None:
    """Tokens are paid once: the reply is recorded although the step must be repaired first."""
    await story.claim("a", "read", turn="t")
    await story.wipe()
    with pytest.raises(LedgerGap, match=r"its reply is recorded"):
        await story.complete("a", "read", turn="t")
    await story.begin()
    found = await story.claim("b", "read", turn="t")
    assert (found.verdict, found.result) == ("done", '{"ok":1}')


async def test_under_reset_lineage_a_missing_nonce_is_no_gap(story: Story) -> None:
    """There the nonce never comes back: waiting for it would not end."""
    await story.wipe()
    claim = await story.claim("a", "read", turn="t", lineage=True)
    assert (claim.verdict, claim.witness) == ("claimed", story.witness)
    done = await story.complete("a", "read", turn="t", witness=story.witness, lineage=True)
    assert (done.verdict, done.witness) == ("done", story.witness)


async def test_under_reset_lineage_the_given_witness_is_handed_on(story: Story) -> None:
    """The nonce that is there may be the old branch's own, made after a wipe."""
    given = story.witness.model_copy(update={"nonce": "older"})
    claim = await story.claim("a", "read", turn="t", lineage=True, witness=given)
    assert claim.witness == given
    seen = (await story.ledger.snapshot()).witness
    assert story.ledger.carried(seen, given, lineage=True) == given
    assert story.ledger.carried(seen, given, lineage=False) == story.witness
    with pytest.raises(LedgerGap):
        story.ledger.carried(None, given, lineage=False)


async def test_usage_of_every_attempt_is_kept(story: Story) -> None:
    """Honest spend: tokens of an attempt that lost its claim count too; the last report stands."""
    await story.claim("a", "read", OVER_MS)
    await story.claim("b", "read")
    await story.ledger.usage(STEP, token="a", usage={"output_tokens": 1, "empty": []})
    await story.ledger.usage(STEP, token="b", usage={"output_tokens": 20})
    await story.ledger.usage(STEP, token="a", usage={"output_tokens": 7, "empty": []})
    assert await story.ledger.usages(STEP) == {
        "a": {"output_tokens": 7, "empty": []},
        "b": {"output_tokens": 20},
    }
    assert await story.ledger.usages("13") == {}


# ---- restore: history outranks Redis


async def test_restore_brings_a_run_back(story: Story) -> None:
    """After a wipe: same answers from history; the nonce is `begin`'s alone to make."""
    await story.wipe()
    await story.ledger.restore(
        {
            "1": Restored("done", "d1", "read", result='"reply"'),
            "1.1": Restored("done", "c1", "keyed", result='"' + "x" * INLINE_BYTES + '"'),
            "1.2": Restored("failed", "c2", "at_most_once", result='"no"'),
            "1.3": Restored("doubt", "c3", "at_most_once", why="a timeout", at_ms=77),
        },
        {"0": "system", "1": "turn"},
    )
    found = await story.ledger.snapshot()
    assert found.witness is None
    assert found.turns == {"0": "system", "1": "turn"}
    states = {step: (record.st, len(record.result)) for step, record in found.records.items()}
    assert states == {
        "1": ("done", 7),
        "1.1": ("done", INLINE_BYTES + 2),
        "1.2": ("failed", 4),
        "1.3": ("doubt", 0),
    }
    assert (found.records["1.3"].at_ms, found.records["1.3"].why) == (77, "a timeout")


async def test_restore_replaces_what_redis_holds(story: Story) -> None:
    """What Temporal told the workflow is what happened, also of another fingerprint."""
    await story.claim("a")
    await story.complete("a", result='"of another branch"')
    await story.ledger.restore({STEP: Restored("done", OTHER_FP, "keyed", result='"told"')}, {})
    record = await story.record()
    assert record is not None
    assert (record.fp, record.result) == (OTHER_FP, '"told"')


async def test_a_doubt_in_history_never_hides_a_late_truth(story: Story) -> None:
    """The effect is known by now; asking a person about it would forget that."""
    await story.claim("a")
    await story.complete("a", result='"late truth"')
    await story.ledger.restore({STEP: Restored("doubt", FP, "keyed", why="old")}, {})
    assert (await story.claim("b")).result == '"late truth"'


async def test_a_doubt_replaces_another_requests_done(story: Story) -> None:
    """Another fingerprint's result answers another question; settling the doubt must not hang."""
    await story.claim("a", fp=OTHER_FP)
    await story.complete("a", fp=OTHER_FP)
    await story.ledger.restore({STEP: Restored("doubt", FP, "keyed", why="old")}, {})
    assert (await story.claim("b")).verdict == "doubt"


async def test_restore_writes_hundreds_of_records(story: Story) -> None:
    """A long run is rebuilt whole."""
    many = {f"{n}.1": Restored("done", FP, "read", result=str(n)) for n in range(350)}
    await story.ledger.restore(many, {f"{n}.1": f"turn {n}" for n in range(360)})
    found = await story.ledger.snapshot()
    assert {step: record.result for step, record in found.records.items()} == {
        step: record.result for step, record in many.items()
    }
    assert len(found.turns) == 360


# ---- size, lifetime, and records that cannot be read


async def test_a_long_result_lives_beside_the_hash(story: Story) -> None:
    """Nothing fails for its size; the hash of a run stays small; the answer is whole."""
    result = json.dumps("\ud83d\ude00" * INLINE_BYTES)
    await story.claim("a")
    await story.complete("a", result=result)
    assert (await story.claim("b")).result == result
    record = await story.record()
    assert record is not None
    assert record.result == result
    assert (await story.ledger.snapshot()).records[STEP] == record
    assert len(await story.redis.hget(story.key, f"s:{STEP}")) < 1000


@pytest.mark.parametrize(
    ("cls", "verdict", "why"),
    [("read", "claimed", ""), ("keyed", "claimed", ""), ("at_most_once", "doubt", "result_lost")],
)
async def test_a_lost_long_result_is_a_lost_record(
    story: Story, cls: EffectClass, verdict: str, why: str
) -> None:
    """A server that evicted the result: asked again where harmless, never fired again else."""
    await story.claim("a", cls)
    await story.complete("a", cls, result=json.dumps("x" * INLINE_BYTES))
    for key in await story.redis.keys(f"{story.key}:b:*"):
        await story.redis.delete(key)
    assert (await story.ledger.snapshot()).records == {}
    claim = await story.claim("b", cls)
    assert (claim.verdict, claim.why) == (verdict, why)
    assert claim.may_have_sent or verdict == "doubt"
    assert (await story.complete("b", cls)).verdict == "done"


async def test_everything_of_an_ended_run_expires_and_wakes_up_together(story: Story) -> None:
    """Nothing is left behind for ever, and a reset of an ended run loses nothing."""
    await story.claim("a")
    await story.complete("a", result=json.dumps("x" * INLINE_BYTES))
    keys = await story.redis.keys(f"{story.key}*")
    assert len(keys) == 2
    assert [await story.redis.pttl(key) for key in keys] == [-1, -1]
    await story.ledger.end(LONG_MS)
    assert all([0 < await story.redis.pttl(key) <= LONG_MS for key in keys])
    await story.ledger.snapshot()
    assert [await story.redis.pttl(key) for key in keys] == [-1, -1]


async def test_every_operation_of_a_live_run_takes_the_expiry_away(story: Story) -> None:
    """An approval may take sixty days; a zombie's `end` must not let a live run's hash expire."""
    step_1 = Restored("done", FP, "read", result="1")
    await story.claim("a")
    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        "begin": lambda: story.ledger.begin(story.witness, reset_lineage=False),
        "begin, lineage": lambda: story.ledger.begin(story.witness, reset_lineage=True),
        "claim": lambda: story.claim("a"),
        "renew": lambda: story.renew("a"),
        "release": lambda: story.release("a", maybe=True),
        "complete": lambda: story.complete("a"),
        "fail": lambda: story.fail("a"),
        "doubt": lambda: story.doubt("a"),
        "resolve": lambda: story.resolve(1, "done"),
        "mismatch": lambda: story.claim("a", fp=OTHER_FP),
        "restore": lambda: story.ledger.restore({"1": step_1}, {"0": "frozen"}),
        "usage": lambda: story.ledger.usage(STEP, token="a", usage={}),
        "usages": lambda: story.ledger.usages(STEP),
        "snapshot": story.ledger.snapshot,
        "records": lambda: story.ledger.records(STEP),
    }
    left_expiring: list[str] = []
    for name, operation in operations.items():
        await story.ledger.end(LONG_MS)
        assert await story.ttl_ms() > 0
        await operation()
        if await story.ttl_ms() != -1:
            left_expiring.append(name)
    assert left_expiring == []


_RECORD = (
    '{"v":1,"st":"done","own":"","cls":"keyed","fence":1,"exp":0,"first":1,"n":1,"ms":0,"fp":"'
    f'{FP}"}}'
)


@pytest.mark.parametrize(
    "found",
    [
        "no JSON",
        "[]",
        '{"v":1,"st":"done"}',
        _RECORD.replace('"v":1', '"v":2'),
        _RECORD.replace("done", "sealed"),
        _RECORD.replace('"ms":0', '"ms":false'),
    ],
)
async def test_a_record_that_we_cannot_read_stops_everything(story: Story, found: str) -> None:
    """A newer Onward wrote it: nothing is fired, nothing is written on a guess."""
    await story.redis.hset(story.key, f"s:{STEP}", found)
    before = await story.redis.hgetall(story.key)
    for operation in (
        story.claim("a", "at_most_once"),
        story.complete("a"),
        story.fail("a"),
        story.doubt("a"),
        story.release("a", maybe=False),
        story.renew("a"),
        story.resolve(1, "done"),
        story.ledger.restore({STEP: Restored("done", FP, "keyed", result="1")}, {}),
        story.ledger.snapshot(),
        story.ledger.records(STEP),
    ):
        with pytest.raises(LedgerUnreadable, match="expected version 1"):
            await operation
    assert await story.redis.hgetall(story.key) == before


async def test_a_client_that_decodes_works_as_well(redis_url: str) -> None:
    """How a user sets up the connection makes no difference."""
    async with new_story(redis_url, decode_responses=True) as story:
        await story.claim("a", turn="t\u00e9")
        await story.complete("a", result='"\u00e9"', turn="t\u00e9", witness=story.witness)
        assert (await story.claim("b", turn="x")).result == '"\u00e9"'
        assert (await story.ledger.snapshot()).turns == {STEP: "t\u00e9"}


async def test_the_script_is_loaded_again_after_script_flush(story: Story) -> None:
    """A server that forgot its scripts (a restart, an operator) costs nothing."""
    await story.redis.script_flush()
    assert (await story.claim("a")).verdict == "claimed"
    await story.redis.script_flush()
    await story.ledger.restore({"1": Restored("done", FP, "read", result="1")}, {"2": "t"})
    assert (await story.ledger.snapshot()).records["1"].result == "1"
