"""What sets the effect classes apart: who may send again, and what a refusal proves."""

from collections.abc import AsyncGenerator
from typing import cast, get_args

import pytest
import pytest_asyncio
from ledger_story import OVER_MS, SENDS_AGAIN, Story, new_story

from onward.messages import EffectClass

pytestmark = pytest.mark.timeout(30)

PROVES: tuple[EffectClass, ...] = ("read", "sealed")
PROVES_NOTHING = tuple(cls for cls in get_args(EffectClass) if cls not in PROVES)
OF_A_NEWER_RELEASE = cast("EffectClass", "entangled")


@pytest_asyncio.fixture(loop_scope="session")
async def story(redis_url: str) -> AsyncGenerator[Story]:
    """Begin a run of its own."""
    async with new_story(redis_url) as new:
        yield new


@pytest.mark.parametrize(
    ("cls", "verdict"),
    [(cls, "claimed") for cls in SENDS_AGAIN if cls != "timed"]
    + [("timed", "doubt"), ("at_most_once", "doubt")],
)
async def test_after_a_loss_on_a_lossy_server(
    redis_url: str, cls: EffectClass, verdict: str
) -> None:
    """`timed` waits by a clock: of no use where another node may be giving claims meanwhile."""
    async with new_story(redis_url, strict=False) as story:
        await story.wipe()
        claim = await story.claim("a", cls)
    assert (claim.verdict, claim.may_have_sent) == (verdict, True)


async def test_timed_goes_on_after_a_loss_on_a_strict_server(story: Story) -> None:
    """One node, so its lease and the tool's settling time bound what may still land."""
    await story.wipe()
    assert (await story.claim("a", "timed")).verdict == "claimed"


async def test_timed_goes_on_where_nothing_was_lost(redis_url: str) -> None:
    """A killed worker is no doubt, on a lossy server either."""
    async with new_story(redis_url, strict=False) as story:
        await story.claim("a", "timed", OVER_MS)
        claim = await story.claim("b", "timed")
    assert (claim.verdict, claim.may_have_sent) == ("claimed", True)


@pytest.mark.parametrize("cls", PROVES)
async def test_a_refusal_is_proof_where_no_earlier_request_can_land(
    story: Story, cls: EffectClass
) -> None:
    """A read has no effect; a seal has shut every earlier request out."""
    await story.claim("a", cls, OVER_MS)
    await story.claim("b", cls)
    assert (await story.fail("b", cls)).verdict == "failed"


@pytest.mark.parametrize("cls", PROVES_NOTHING)
async def test_a_refusal_is_no_proof_while_an_earlier_request_may_land(
    story: Story, cls: EffectClass
) -> None:
    """Told "failed", and then it happened: the one thing that must never be."""
    await story.claim("a", cls)
    await story.release("a", maybe=True)
    await story.claim("b", cls)
    assert (await story.fail("b", cls)).verdict == "doubt"


# ---- a class that we do not know, or that a deploy has changed


async def test_an_unknown_class_is_never_sent_again(story: Story) -> None:
    """A newer release's class may need what we do not do: it is treated as at_most_once."""
    await story.claim("a", OF_A_NEWER_RELEASE, OVER_MS)
    assert (await story.claim("b", OF_A_NEWER_RELEASE)).verdict == "doubt"
    await story.wipe()
    assert (await story.claim("b", OF_A_NEWER_RELEASE)).verdict == "doubt"


@pytest.mark.parametrize(
    ("before", "after"),
    [("at_most_once", "keyed"), ("keyed", "at_most_once"), (OF_A_NEWER_RELEASE, "read")],
)
async def test_a_deploy_that_changes_the_class_fires_nothing_twice(
    story: Story, before: EffectClass, after: EffectClass
) -> None:
    """The lost attempt sent without a key, or the next one will: in doubt, and nothing is lost."""
    await story.claim("a", before, OVER_MS)
    doubt = await story.claim("b", after)
    assert (doubt.verdict, doubt.why) == ("doubt", "owner_lost")
    assert (await story.complete("a", before)).verdict == "done"
    assert (await story.claim("b", after)).verdict == "done"


async def test_a_deploy_does_not_make_a_refusal_proof(story: Story) -> None:
    """The earlier request was sent without a seal, so none has shut it out."""
    await story.claim("a", "keyed", OVER_MS)
    await story.claim("b", "keyed", OVER_MS)
    assert (await story.fail("b", "sealed")).verdict == "doubt"
