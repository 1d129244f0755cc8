"""The ledger, told as a story: each transition of a record is one test.

A *step* is one thing that must not happen twice. An *attempt* is one run of the activity that does
it; it has a token. A record goes open -> claimed -> done, failed or doubt.
"""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from ledger_story import EVERY, LONG_MS, OTHER_FP, OVER_MS, SENDS_AGAIN, STEP, Story, new_story

from onward.messages import EffectClass, Witness

pytestmark = pytest.mark.timeout(30)


@pytest_asyncio.fixture(loop_scope="session")
async def story(redis_url: str) -> AsyncGenerator[Story]:
    """Begin a run of its own."""
    async with new_story(redis_url) as new:
        yield new


# ---- begin: the witness


async def test_begin_leaves_a_nonce_and_finds_it_again(story: Story) -> None:
    """A second attempt of `begin` returns the first one's witness, never a second nonce."""
    assert story.witness.nonce
    assert story.witness.run_id == story.run.run_id
    assert await story.ledger.begin(story.witness, reset_lineage=False) == story.witness


async def test_begin_names_the_server_as_it_is_now(story: Story) -> None:
    """Without reset lineage the incarnation in the witness is refreshed: no doubt after repair."""
    old = story.witness.model_copy(update={"inc": "before:restart"})
    assert await story.ledger.begin(old, reset_lineage=False) == story.witness


@pytest.mark.parametrize("given", [True, False])
async def test_begin_under_reset_lineage_makes_no_nonce(story: Story, given: bool) -> None:
    """In a run made by a reset the witness comes from history alone; a new nonce double-fires."""
    old = story.witness if given else None
    await story.wipe()
    handed_on = await story.ledger.begin(old, reset_lineage=True)
    assert handed_on.nonce == (story.witness.nonce if given else "")
    assert await story.ttl_ms() == -2, "it made a key"


async def test_begin_under_reset_lineage_does_not_return_the_nonce_that_is_there(
    story: Story,
) -> None:
    """A nonce found in Redis may be of an old `begin` that landed after a wipe."""
    assert (await story.ledger.begin(None, reset_lineage=True)).nonce == ""


# ---- claim


@pytest.mark.parametrize("cls", EVERY)
async def test_first_claim_is_given(story: Story, cls: EffectClass) -> None:
    """Absent in a dataset that we trust means never sent: the attempt may send."""
    claim = await story.claim("a", cls)
    assert (claim.verdict, claim.may_have_sent, claim.requests) == ("claimed", False, 1)
    assert claim.fence >= claim.first_ms == claim.now_ms > 0


@pytest.mark.parametrize("cls", EVERY)
async def test_lost_reply_to_a_claim_is_the_same_claim(story: Story, cls: EffectClass) -> None:
    """An attempt that asks twice holds one claim, and it counts once, whatever its lease."""
    first = await story.claim("a", cls, OVER_MS)
    again = await story.claim("a", cls)
    assert again.verdict == "claimed"
    assert (again.fence, again.requests) == (first.fence, 1)


@pytest.mark.parametrize("cls", EVERY)
async def test_a_living_claim_makes_others_wait(story: Story, cls: EffectClass) -> None:
    """Two attempts never hold one step at once; the loser is told how long to wait."""
    await story.claim("a", cls)
    busy = await story.claim("b", cls)
    assert busy.verdict == "busy"
    assert LONG_MS - 30_000 < busy.wait_ms <= LONG_MS


@pytest.mark.parametrize("cls", SENDS_AGAIN)
async def test_after_the_lease_another_attempt_takes_over(story: Story, cls: EffectClass) -> None:
    """Where sending again is harmless, a killed worker's step goes on under a higher fence."""
    first = await story.claim("a", cls, OVER_MS)
    taken = await story.claim("b", cls)
    assert (taken.verdict, taken.may_have_sent, taken.requests) == ("claimed", True, 2)
    assert taken.fence > first.fence
    assert taken.first_ms == first.first_ms


async def test_at_most_once_is_never_taken_over(story: Story) -> None:
    """A killed attempt may have sent: nobody sends again, the call is in doubt."""
    await story.claim("a", "at_most_once", OVER_MS)
    doubt = await story.claim("b", "at_most_once")
    assert (doubt.verdict, doubt.why) == ("doubt", "owner_lost")


@pytest.mark.parametrize("cls", SENDS_AGAIN)
async def test_after_a_wipe_a_harmless_class_goes_on_carefully(
    story: Story, cls: EffectClass
) -> None:
    """Records are lost: the attempt may send, knowing that an earlier request may still land."""
    await story.wipe()
    claim = await story.claim("a", cls)
    assert (claim.verdict, claim.may_have_sent) == ("claimed", True)


async def test_after_a_wipe_at_most_once_is_in_doubt(story: Story) -> None:
    """Absent is not "never sent" once the dataset is another one."""
    await story.wipe()
    doubt = await story.claim("a", "at_most_once")
    assert (doubt.verdict, doubt.why) == ("doubt", "records_lost")


async def test_a_new_nonce_does_not_bring_trust_back(story: Story) -> None:
    """A call keeps the witness it was scheduled with: another dataset's nonce is not its own."""
    old = story.witness
    await story.wipe()
    await story.begin()
    assert (await story.claim("a", "at_most_once", witness=old)).verdict == "doubt"


async def test_an_empty_witness_trusts_nothing(story: Story) -> None:
    """A run without a witness can end in doubt, never in a second effect."""
    empty = Witness(nonce="", inc="", run_id="")
    assert (await story.claim("a", "at_most_once", witness=empty)).verdict == "doubt"
    await story.wipe()
    await story.redis.hset(story.key, "_ds", "")
    assert (await story.claim("a", "at_most_once", witness=empty)).verdict == "doubt"


@pytest.mark.parametrize(("strict", "verdict"), [(True, "claimed"), (False, "doubt")])
async def test_only_a_lossy_server_loses_trust_by_a_restart(
    redis_url: str, strict: bool, verdict: str
) -> None:
    """A strict server keeps what it acknowledged; a lossy one may have lost its tail."""
    async with new_story(redis_url, strict=strict) as story:
        before = story.witness.model_copy(update={"inc": "before:restart"})
        assert (await story.claim("a", "at_most_once", witness=before)).verdict == verdict


async def test_a_lossy_server_is_trusted_while_it_is_the_same(redis_url: str) -> None:
    """Without a fault there is no doubt, on a lossy server either."""
    async with new_story(redis_url, strict=False) as story:
        assert (await story.claim("a", "at_most_once")).verdict == "claimed"


# ---- how it ends


@pytest.mark.parametrize("cls", EVERY)
async def test_done_is_answered_for_ever(story: Story, cls: EffectClass) -> None:
    """One result for everybody, byte for byte; nobody sends again."""
    result = '{"amount":1.50,"note":"\u00e9 \\ud800 \x00"}'
    await story.claim("a", cls)
    assert (await story.complete("a", cls, result=result)).verdict == "done"
    found = await story.claim("b", cls)
    assert (found.verdict, found.result) == ("done", result)


@pytest.mark.parametrize("cls", EVERY)
async def test_first_recorded_result_wins(story: Story, cls: EffectClass) -> None:
    """A zombie that finishes late is given the recorded result, and changes nothing."""
    await story.claim("a", cls, OVER_MS)
    await story.complete("a", cls, result='"first"')
    late = await story.complete("zombie", cls, result='"second"')
    assert (late.verdict, late.result) == ("done", '"first"')
    assert (await story.fail("zombie", cls)).result == '"first"'


@pytest.mark.parametrize("cls", SENDS_AGAIN)
async def test_an_attempt_that_lost_its_claim_is_fenced(story: Story, cls: EffectClass) -> None:
    """Paused past its lease and taken over, it can no longer speak for the step."""
    await story.claim("a", cls, OVER_MS)
    await story.claim("b", cls)
    for verdict in (
        await story.renew("a"),
        await story.complete("a", cls),
        await story.fail("a", cls),
        await story.doubt("a", cls),
        await story.release("a", maybe=True),
    ):
        assert (verdict.verdict, verdict.why) == ("fenced", "claimed")
    record = await story.record()
    assert record is not None
    assert (record.st, record.own) == ("claimed", "b")


async def test_renew_keeps_a_claim(story: Story) -> None:
    """An attempt that lives keeps its lease, even if it renews late."""
    await story.claim("a", "keyed", OVER_MS)
    assert (await story.renew("a")).verdict == "claimed"
    assert (await story.claim("b")).verdict == "busy"


@pytest.mark.parametrize("cls", EVERY)
async def test_complete_restores_the_truth_after_a_wipe(story: Story, cls: EffectClass) -> None:
    """A living attempt knows what happened although its claim is gone."""
    await story.claim("a", cls)
    await story.wipe()
    assert (await story.renew("a")).why == "absent"
    assert (await story.complete("a", cls)).verdict == "done"
    assert (await story.claim("b", cls)).verdict == "done"


async def test_truth_that_comes_late_ends_a_doubt(story: Story) -> None:
    """A doubt that nobody has settled yields to the attempt that knows."""
    await story.claim("a", "at_most_once", OVER_MS)
    await story.claim("b", "at_most_once")
    assert (await story.complete("a", "at_most_once")).verdict == "done"


async def test_complete_after_release_by_the_same_attempt(story: Story) -> None:
    """An open step that nobody else claimed still takes its last owner's result."""
    await story.claim("a")
    await story.release("a", maybe=True)
    assert (await story.complete("b")).verdict == "fenced"
    assert (await story.complete("a")).verdict == "done"


@pytest.mark.parametrize("cls", EVERY)
async def test_refused_is_failed_for_everybody(story: Story, cls: EffectClass) -> None:
    """A request that was refused did nothing, and is not sent again."""
    await story.claim("a", cls)
    assert (await story.fail("a", cls)).verdict == "failed"
    assert (await story.fail("a", cls)).verdict == "failed"
    found = await story.claim("b", cls)
    assert (found.verdict, found.result) == ("failed", '"no"')
    assert (await story.complete("zombie", cls)).verdict == "failed"


async def test_refused_after_an_earlier_request_is_doubt(story: Story) -> None:
    """The first request may still land: "failed" would be a lie."""
    await story.claim("a", "keyed", OVER_MS)
    await story.claim("b", "keyed")
    assert (await story.fail("b", "keyed")).verdict == "doubt"
    assert (await story.claim("c", "keyed")).verdict == "doubt"


async def test_a_read_that_is_refused_has_failed_all_the_same(story: Story) -> None:
    """A read has no effect that could land later."""
    await story.claim("a", "read", OVER_MS)
    await story.claim("b", "read")
    assert (await story.fail("b", "read")).verdict == "failed"


async def test_a_second_copy_of_a_claim_makes_a_refusal_no_proof(story: Story) -> None:
    """A copy that comes late claims again, after a seal and a send that the refused one lacks."""
    refused = await story.claim("a", "sealed", OVER_MS)
    await story.claim("b", "sealed")
    await story.release("b", maybe=True)
    assert (await story.claim("a", "sealed")).fence > refused.fence
    story.fences["a"] = refused.fence  # the attempt knows nothing of the copy
    assert (await story.fail("a", "sealed")).verdict == "fenced"


async def test_at_most_once_takes_its_own_doubt_back(story: Story) -> None:
    """The one attempt that sent learns late that it was refused: it did not happen."""
    await story.claim("a", "at_most_once", OVER_MS)
    await story.claim("b", "at_most_once")
    assert (await story.fail("b", "at_most_once")).verdict == "fenced"
    assert (await story.fail("a", "at_most_once")).verdict == "failed"


async def test_a_repeated_fail_does_not_turn_doubt_into_failed(story: Story) -> None:
    """The client sends again when a reply is lost; the earlier request may still land."""
    await story.claim("a", "at_most_once")
    await story.release("a", maybe=True)
    await story.claim("b", "at_most_once")
    assert (await story.fail("b", "at_most_once")).verdict == "doubt"
    assert (await story.fail("b", "at_most_once")).verdict == "fenced"


async def test_fail_after_a_wipe_claims_nothing(story: Story) -> None:
    """Without its record an attempt cannot know that nobody else has sent."""
    await story.claim("a")
    await story.wipe()
    assert (await story.fail("a")).verdict == "fenced"


@pytest.mark.parametrize("cls", EVERY)
async def test_doubt_is_answered_until_it_is_settled(story: Story, cls: EffectClass) -> None:
    """Nobody sends again what may have happened."""
    await story.claim("a", cls)
    assert (await story.doubt("a", cls)).verdict == "doubt"
    found = await story.claim("b", cls)
    assert (found.verdict, found.why) == ("doubt", "a timeout")


async def test_doubt_is_recorded_after_a_wipe_too(story: Story) -> None:
    """The attempt sent something: its doubt must not be lost with its claim."""
    await story.claim("a", "at_most_once")
    await story.wipe()
    assert (await story.doubt("a", "at_most_once")).verdict == "doubt"


async def test_release_hands_the_step_to_the_next_attempt(story: Story) -> None:
    """Nothing was sent: the next attempt starts clean, at once."""
    await story.claim("a", "at_most_once")
    assert (await story.release("a", maybe=False)).verdict == "open"
    claim = await story.claim("b", "at_most_once")
    assert (claim.verdict, claim.may_have_sent, claim.requests) == ("claimed", False, 2)


async def test_release_remembers_what_may_land(story: Story) -> None:
    """An ambiguous request marks the step for good, also when a later one never left."""
    await story.claim("a")
    await story.release("a", maybe=True)
    await story.claim("b")
    await story.release("b", maybe=False)
    assert (await story.claim("c")).may_have_sent


async def test_an_attempt_that_sent_nothing_does_not_count(story: Story) -> None:
    """Retries are bounded by requests sent; waiting and gaps cost none, a lost reply neither."""
    await story.claim("a")
    for _ in range(2):
        assert (await story.release("a", maybe=False, count=False)).verdict == "open"
    claim = await story.claim("b")
    assert claim.requests == 1
    assert claim.first_ms == claim.now_ms


# ---- another request under the same step


@pytest.mark.field("D05")
@pytest.mark.parametrize("cls", EVERY)
async def test_another_request_never_gets_this_records_answer(
    story: Story, cls: EffectClass
) -> None:
    """Same position, other arguments (after a reset): a loud mismatch, and nothing is written."""
    await story.claim("a", cls)
    await story.complete("a", cls)
    before = await story.record()
    verdicts = [
        (await story.claim("b", cls, fp=OTHER_FP)).verdict,
        (await story.complete("b", cls, fp=OTHER_FP)).verdict,
        (await story.fail("b", cls, OTHER_FP)).verdict,
        (await story.doubt("b", cls, OTHER_FP)).verdict,
        (await story.ledger.renew(STEP, fp=OTHER_FP, token="b", lease_ms=1)).verdict,
        (await story.ledger.release(STEP, fp=OTHER_FP, token="b", maybe=False)).verdict,
    ]
    assert verdicts == ["mismatch"] * 6
    assert await story.record() == before


@pytest.mark.field("D05")
async def test_two_runs_with_the_same_call_id_know_nothing_of_each_other(redis_url: str) -> None:
    """The run is part of every name: a reused workflow id does not replay an old result."""
    async with new_story(redis_url) as one, new_story(redis_url) as two:
        await _both_fire(one, two)


async def _both_fire(one: Story, two: Story) -> None:
    for story in (one, two):
        assert (await story.claim("a", "at_most_once")).verdict == "claimed"
        await story.complete("a", "at_most_once", result=f'"{story.run.run_id}"')
    assert (await one.claim("b")).result == f'"{one.run.run_id}"'
