"""What the API and people say of rate limits, which models share one, and what counts."""

import time
import uuid
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from agent_runs import connected
from temporalio.exceptions import ApplicationError

from activities.rates import Share, uncached_tokens
from onward.claude_request import Request
from onward.errors import UsageError
from onward.messages import ContextUse
from onward.rate_limits import RateLimits
from onward.rates import Rates, Told, counted, parse_caps, pool, told_by
from onward.settings import load_settings
from onward.transcript import Turn


def test_models_that_the_api_counts_as_one_share_a_pool() -> None:
    """The documented common limits are one pool, dates or not; fast mode has one of its own."""
    assert pool("claude-sonnet-4-5-20250929") == pool("claude-sonnet-4-6")
    assert len({pool(f"claude-opus-4-{minor}") for minor in (5, 6, 7, 8)}) == 1
    assert pool("claude-fable-5-1") == pool("claude-fable-5") != pool("claude-mythos-5")
    assert len({pool(f"claude-{name}") for name in ("opus-5", "opus-5-5", "sonnet-5")}) == 3
    assert pool("claude-opus-5-5", fast=True) != pool("claude-opus-5-5")


def test_limits_are_learned_from_headers() -> None:
    """Limits and what is left are read as a real response had them; what is missing is unknown."""
    real = {
        "anthropic-ratelimit-input-tokens-limit": "2000000",
        "anthropic-ratelimit-input-tokens-remaining": "1999000",
        "anthropic-ratelimit-input-tokens-reset": "2026-02-07T08:27:34Z",
        "anthropic-ratelimit-requests-limit": "4000",
        "anthropic-ratelimit-requests-remaining": "3999",
        "anthropic-ratelimit-tokens-limit": "2400000",
    }
    assert told_by(real) == Told(Rates(4000, 2_000_000), Rates(3999, 1_999_000))
    assert told_by({"anthropic-fast-output-tokens-limit": "80000"}, fast=True).limits == Rates(
        output_tokens=80_000
    )


@pytest.mark.parametrize("text", ["", "many", "-5", "1e3", "0"])
def test_odd_headers_set_no_limit(text: str) -> None:
    """A gateway's nonsense never stops a run: what is no number above zero is no limit."""
    assert not told_by({"anthropic-ratelimit-requests-limit": text}).limits


def test_only_what_the_api_counts_is_counted() -> None:
    """Tokens read from the cache do not count toward the input limit; those written to it do."""
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 100_000,
        "output_tokens": 7,
    }
    assert counted(usage) == Rates(1, 35, 7)
    assert counted({}) == Rates(1, 0, 0)


def test_little_left_is_told_at_once() -> None:
    """Below a tenth of any limit, all workers must hear of it."""
    limits = Rates(50, 30_000, 8_000)
    assert not Told(limits, Rates(5, 3_000, 800)).low
    assert Told(limits, Rates(5, 2_999, 800)).low
    assert not Told(limits, Rates()).low


def test_own_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ONWARD_RATE_LIMITS` sets limits by model; without it there are none."""
    assert load_settings().rate_limits == {}
    monkeypatch.setenv("ONWARD_RATE_LIMITS", "claude-sonnet-5-5 = 50/30000/8000; claude-x=1/2/3;")
    assert load_settings().rate_limits == {
        "claude-sonnet-5-5": Rates(50, 30_000, 8_000),
        "claude-x": Rates(1, 2, 3),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("claude-opus-5-5", "expected model=requests/input tokens/output tokens a minute"),
        ("claude-opus-5-5=50/30k/8000", "expected model=requests"),
        ("claude-opus-5-5=50/0/8000", "nothing could be sent with a limit of 0"),
        ("claude-opus-4-6=5/6/7;claude-opus-4-7=5/6/7", "'claude-opus-4' share one limit"),
    ],
)
def test_impossible_limits_are_named(monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    """What is wrong is said before a run begins, with the setting's name and what is possible."""
    monkeypatch.setenv("ONWARD_RATE_LIMITS", text)
    with pytest.raises(UsageError, match="ONWARD_RATE_LIMITS is") as caught:
        load_settings()
    assert said in str(caught.value)


def test_pools_are_what_limits_are_set_for() -> None:
    """A limit set for one of the models that share a limit holds for all of them."""
    assert parse_caps("claude-sonnet-4-5=1/2/3") == {pool("claude-sonnet-4-6"): Rates(1, 2, 3)}


def request(body: str, head: str = "") -> Request:
    """Make a request of the tests' model."""
    return Request((head + body).encode(), "claude-opus-5-5", 100, messages_at=len(head))


def test_what_the_cache_holds_is_not_estimated() -> None:
    """Of a later step only what is new counts; of the first, or without a cache, everything."""
    body, turn = request("x" * 4_000), Turn(content='[{"text":"' + "y" * 287 + '"}]')
    before = ContextUse(tokens=900, body_bytes=3_000)
    assert uncached_tokens(body, turn, None, "auto") == (4_000 - 300) // 4 + 100
    assert uncached_tokens(body, turn, before, "auto") == (1_000 - 300) // 4 + 100
    assert uncached_tokens(body, turn, before, "off") == 900 + 100
    too_short = ContextUse(tokens=500, body_bytes=2_000)
    assert uncached_tokens(body, turn, too_short, "auto") == (4_000 - 300) // 4 + 100


@pytest_asyncio.fixture(loop_scope="session")
async def limits(redis_url: str) -> AsyncGenerator[RateLimits]:
    """Limits of one request a minute, in every mode."""
    caps = {pool("claude-opus-5-5", fast=fast): Rates(1, 1_000, 1_000) for fast in (False, True)}
    async with connected(redis_url) as redis:
        yield RateLimits(redis, f"test-{uuid.uuid4().hex[:12]}", caps)


async def test_a_wait_ends_with_the_runs_own_time(limits: RateLimits) -> None:
    """A run whose time is up first says so then, and not only when its turn comes."""
    await Share(limits, request("{}"), "a").wait(1)
    soon_ms = int((time.time() + 5) * 1_000)
    with pytest.raises(ApplicationError, match="1 requests per minute") as caught:
        await Share(limits, request("{}"), "b").wait(1, soon_ms)
    delay = caught.value.next_retry_delay
    assert delay is not None
    assert 4 < delay.total_seconds() < 5


async def test_fast_mode_takes_no_turn_of_the_others(limits: RateLimits) -> None:
    """A fast request waits for fast ones only: the API counts them apart."""
    fast = request("}", head='{"speed":"fast"')
    await Share(limits, request("{}"), "a").wait(1)
    await Share(limits, fast, "b").wait(1)
    with pytest.raises(ApplicationError, match="claude-opus-5-5:fast"):
        await Share(limits, fast, "c").wait(1)
