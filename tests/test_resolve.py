"""The activity that settles a doubt: what counts is when a person looked, not when it is heard."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ledger_story import FP, STEP, Story, new_story
from temporalio.converter import default
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.resolve import ResolveActivity
from activities.services import Services
from onward.messages import Resolution, ResolveInput
from onward.testing import wait_until

_QUARANTINE_MS = 200


async def _say_failed(story: Story, at_ms: int, said_ms: int) -> Resolution:
    nobody, client = cast("Any", None), cast("Any", SimpleNamespace(data_converter=default()))
    services = Services(nobody, story.redis, nobody, client, strict=True, takeover_s=5.0)
    given = ResolveInput(
        run=story.run,
        call=STEP,
        fingerprint=FP,
        effect="at_most_once",
        at_ms=at_ms,
        outcome="failed",
        quarantine_ms=_QUARANTINE_MS,
        said_ms=said_ms,
        witness=story.witness,
        takeover_s=5.0,
    )
    return await ActivityEnvironment().run(ResolveActivity(services).resolve, given)


async def test_what_was_said_too_early_does_not_count_later(redis_url: str) -> None:
    """A word that was long under way was said before what landed meanwhile: it is refused."""
    async with new_story(redis_url) as story:
        await story.begin()
        await story.claim("a", "at_most_once")
        at_ms = (await story.doubt("a", "at_most_once")).at_ms
        over_ms = at_ms + _QUARANTINE_MS
        await wait_until(lambda: time.time() * 1000 > over_ms, 10, what="the quarantine's end")
        with pytest.raises(ApplicationError, match="may still land"):
            await _say_failed(story, at_ms, said_ms=at_ms + 1)
        told = await _say_failed(story, at_ms, said_ms=int(time.time() * 1000))
    assert told.verdict == "failed"
