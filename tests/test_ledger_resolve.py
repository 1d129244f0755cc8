"""How a person settles a doubt in the ledger, and what keeps them from doing harm."""

from collections.abc import AsyncGenerator
from typing import Literal

import pytest
import pytest_asyncio
from ledger_story import EVERY, FP, LONG_MS, OTHER_FP, OVER_MS, STEP, Story, new_story

from onward.ledger import INLINE_BYTES, Restored
from onward.messages import EffectClass

pytestmark = pytest.mark.timeout(30)


@pytest_asyncio.fixture(loop_scope="session")
async def story(redis_url: str) -> AsyncGenerator[Story]:
    """Begin a run of its own."""
    async with new_story(redis_url) as new:
        yield new


async def test_every_answer_about_a_doubt_names_it(story: Story) -> None:
    """A person settles the doubt that they saw: whoever tells of it, tells the same name."""
    at_ms = await story.in_doubt()
    again, found = await story.doubt("b", "at_most_once"), await story.claim("b", "at_most_once")
    record = await story.record()
    assert record is not None
    assert at_ms == again.at_ms == found.at_ms == record.at_ms > 0


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("to", ["done", "failed"])
async def test_what_a_person_settles_is_everybodys_answer(
    story: Story, cls: EffectClass, to: Literal["done", "failed"]
) -> None:
    """Nobody sends again; the record says who decided."""
    at_ms = await story.in_doubt(cls)
    settled = await story.resolve(at_ms, to, cls=cls)
    assert (settled.verdict, settled.result) == (to, f'"{to}"')
    found, late = await story.claim("b", cls), await story.complete("a", cls)
    assert (found.verdict, found.result) == (late.verdict, late.result) == (to, f'"{to}"')
    record = await story.record()
    assert record is not None
    assert record.by == "operator"


@pytest.mark.parametrize("cls", EVERY)
async def test_a_retry_is_sent_knowing_that_the_first_may_land(
    story: Story, cls: EffectClass
) -> None:
    """One more request, counted from one: else it would be given up at once as the tenth."""
    at_ms = await story.in_doubt(cls)
    assert (await story.resolve(at_ms, "retry", cls=cls)).verdict == "open"
    record, claim = await story.record(), await story.claim("b", cls)
    assert record is not None
    assert (record.st, record.by) == ("open", "operator")
    assert (claim.verdict, claim.may_have_sent, claim.requests) == ("claimed", True, 1)
    assert claim.first_ms == claim.now_ms


async def test_a_refused_retry_is_in_doubt_again(story: Story) -> None:
    """The request before it may have done what this one was refused for; and the doubt is new."""
    at_ms = await story.in_doubt()
    await story.resolve(at_ms, "retry")
    await story.claim("b", "at_most_once")
    second = await story.fail("b", "at_most_once")
    assert second.verdict == "doubt"
    assert second.at_ms > at_ms


@pytest.mark.parametrize("to", ["failed", "retry"])
async def test_no_is_not_taken_while_a_request_may_be_under_way(
    story: Story, to: Literal["failed", "retry"]
) -> None:
    """A person looks downstream and sees nothing, a moment before a paused request lands."""
    at_ms = await story.in_doubt()
    early = await story.resolve(at_ms, to, quarantine_ms=LONG_MS)
    assert early.verdict == "early"
    assert LONG_MS - 30_000 < early.wait_ms <= LONG_MS
    assert (await story.claim("b", "at_most_once")).verdict == "doubt"


async def test_yes_is_taken_at_once(story: Story) -> None:
    """What a person has seen to be done cannot come undone."""
    at_ms = await story.in_doubt()
    assert (await story.resolve(at_ms, "done", quarantine_ms=LONG_MS)).verdict == "done"


async def test_the_quarantine_counts_from_when_the_doubt_came_back(story: Story) -> None:
    """The doubt is old, but after a wipe an attempt may have claimed a moment ago."""
    old = Restored("doubt", FP, "keyed", why="a timeout", at_ms=77)
    await story.wipe()
    await story.claim("zombie", "keyed")
    await story.ledger.restore({STEP: old}, {})
    early = await story.resolve(77, "retry", cls="keyed", quarantine_ms=LONG_MS)
    assert early.verdict == "early"
    # And a second refill of what stands does not put it off.
    await story.ledger.restore({STEP: old}, {})
    again = await story.resolve(77, "retry", cls="keyed", quarantine_ms=LONG_MS)
    assert again.wait_ms <= early.wait_ms


async def test_a_decision_whose_reply_was_lost_is_the_same_decision(story: Story) -> None:
    """Asked again it answers as it stands, also when the second one says otherwise."""
    at_ms = await story.in_doubt()
    for to in ("failed", "failed", "done", "retry"):
        settled = await story.resolve(at_ms, to)
        assert (settled.verdict, settled.result) == ("failed", '"failed"')


async def test_a_retry_whose_reply_was_lost_is_the_same_retry(story: Story) -> None:
    """The step is open once, not twice."""
    at_ms = await story.in_doubt()
    answers = [(await story.resolve(at_ms, "retry")).verdict for _ in range(2)]
    assert answers == ["open", "open"]


async def test_truth_that_came_first_is_the_answer(story: Story) -> None:
    """The attempt that knows was faster than the person: what it brought stands, and is told."""
    at_ms = await story.in_doubt()
    await story.complete("a", "at_most_once", result='"the truth"')
    settled = await story.resolve(at_ms, "failed")
    assert (settled.verdict, settled.result) == ("done", '"the truth"')


async def test_truth_may_still_come_after_a_retry_is_allowed(story: Story) -> None:
    """The first attempt wakes before the second begins: nothing need be sent again."""
    at_ms = await story.in_doubt()
    await story.resolve(at_ms, "retry")
    assert (await story.complete("a", "at_most_once", result='"late"')).verdict == "done"
    assert (await story.claim("b", "at_most_once")).result == '"late"'


async def test_a_stale_view_settles_nothing(story: Story) -> None:
    """What a person knows of the first doubt says nothing of the second."""
    first = await story.in_doubt()
    await story.resolve(first, "retry")
    second = await story.in_doubt(by="b")
    stale = await story.resolve(first, "failed")
    assert (stale.verdict, stale.at_ms) == ("stale", second)
    assert (await story.resolve(second, "failed")).verdict == "failed"


async def test_a_clock_that_steps_back_gives_no_name_twice(story: Story) -> None:
    """Else the second doubt could be taken for the first, which a person has looked into."""
    future_ms = 2**41
    await story.ledger.restore({STEP: Restored("doubt", FP, "keyed", at_ms=future_ms)}, {})
    # A quarantine by that clock lasts the longer.
    assert (await story.resolve(future_ms, "retry")).verdict == "early"
    await story.resolve(future_ms, "retry", quarantine_ms=-future_ms)
    assert await story.in_doubt() > future_ms


async def test_a_doubt_that_is_not_there_is_a_gap(story: Story) -> None:
    """Wiped, never there, or claimed since: refill brings the doubt back with its name."""
    assert (await story.resolve(1, "done")).verdict == "gap"
    at_ms = await story.in_doubt()
    told = Restored("doubt", FP, "at_most_once", why="a timeout", at_ms=at_ms)
    await story.wipe()
    assert (await story.resolve(at_ms, "done")).verdict == "gap"
    await story.claim("zombie", "keyed", OVER_MS)
    assert (await story.resolve(at_ms, "done", cls="keyed")).verdict == "gap"
    await story.ledger.restore({STEP: told}, {})
    assert (await story.resolve(at_ms, "done")).verdict == "done"


async def test_another_requests_record_is_a_gap(story: Story) -> None:
    """Another branch's record is not settled; history's doubt replaces it, and then it is."""
    await story.claim("a", "at_most_once", fp=OTHER_FP)
    await story.complete("a", "at_most_once", fp=OTHER_FP)
    assert (await story.resolve(5, "done")).verdict == "gap"
    await story.ledger.restore({STEP: Restored("doubt", FP, "at_most_once", at_ms=5)}, {})
    assert (await story.resolve(5, "done")).verdict == "done"


async def test_a_person_may_bring_a_long_result(story: Story) -> None:
    """Nothing fails for its size."""
    at_ms = await story.in_doubt()
    long = '"' + "x" * INLINE_BYTES + '"'
    settled = await story.ledger.resolve(
        STEP,
        fp=FP,
        cls="at_most_once",
        at_ms=at_ms,
        to="done",
        result=long,
        quarantine_ms=0,
        by="operator",
    )
    assert settled.result == (await story.claim("b", "at_most_once")).result == long
