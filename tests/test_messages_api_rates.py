"""The scripted API keeps its own rate limits as the real one documents its own."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from onward.rates import Rates, told_by
from onward.testing.messages_api import Script, ScriptedAPI, Step

MODEL = "claude-sonnet-5-5"
LONG, SHORT = "word " * 2_000, "word"


@asynccontextmanager
async def limited(said: str = SHORT, **rates: float) -> AsyncGenerator[ScriptedAPI]:
    """Run an API with these limits that says one thing."""
    script = Script(steps=[Step(content=[{"type": "text", "text": said}])])
    async with ScriptedAPI({"default": script}, rate_limits={MODEL: Rates(**rates)}) as api:
        yield api


async def ask(api: ScriptedAPI, prompt: str = SHORT, model: str = MODEL) -> httpx2.Response:
    """Send one request."""
    body: Mapping[str, Any] = {
        "model": model,
        "max_tokens": 4_096,
        "messages": [{"role": "user", "content": prompt}],
    }
    headers = {"x-api-key": "test", "anthropic-version": "2026-10-21"}
    async with httpx2.AsyncClient(base_url=api.url, headers=headers) as http:
        return await http.post("/v1/messages", json=body)


async def test_requests_beyond_the_limit_get_a_429_that_says_when() -> None:
    """The documented shape: type, words, `retry-after`; the request is no violation of a rule."""
    async with limited(requests=2) as api:
        answers = [await ask(api) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        refused = answers[-1]
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert "rate limit of 2 requests per minute" in refused.json()["error"]["message"]
        assert refused.headers["retry-after"] in {"29", "30"}
        assert not api.journal.violations()
        assert [entry.usage == {} for entry in api.journal] == [False, False, True]


async def test_every_response_tells_how_much_is_left() -> None:
    """Limits, rest and reset come with replies and refusals alike, tokens in whole thousands."""
    async with limited(requests=2, input_tokens=30_000, output_tokens=8_000) as api:
        answers = [await ask(api) for _ in range(3)]
        told = [told_by(answer.headers) for answer in answers]
        assert {each.limits for each in told} == {Rates(2, 30_000, 8_000)}
        assert [each.remaining.requests for each in told] == [1, 0, 0]
        assert {each.remaining.input_tokens for each in told} == {30_000}
        assert all(answer.headers["anthropic-ratelimit-requests-reset"] for answer in answers)


async def test_input_is_refused_that_has_no_room() -> None:
    """What a request counts must fit what is left; a refused one takes nothing away."""
    async with limited(input_tokens=6_000) as api:
        statuses = [(await ask(api, prompt)).status_code for prompt in (LONG, LONG, LONG, SHORT)]
        assert statuses == [200, 200, 429, 200]


async def test_output_counts_as_it_comes() -> None:
    """`max_tokens` counts nothing; a long reply is let in, and keeps out those that follow."""
    async with limited(said=LONG, output_tokens=2_000) as api:
        assert [(await ask(api)).status_code for _ in range(2)] == [200, 429]


async def test_models_without_limits_have_none() -> None:
    """Limits are by model, and what has none is told none."""
    async with limited(requests=1) as api:
        answers = [await ask(api, model="claude-haiku-5-5") for _ in range(3)]
        assert {answer.status_code for answer in answers} == {200}
        assert not told_by(answers[0].headers).limits


async def test_drained_buckets_refill_all_the_time() -> None:
    """After a minute at the limit nothing is saved up, and a request has to wait its share."""
    async with limited(requests=60) as api:
        api.rates.drain()
        assert (await ask(api)).headers["retry-after"] == "1"
