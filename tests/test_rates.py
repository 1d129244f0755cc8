"""What the API and people say of rate limits, and which models share one."""

import pytest

from onward.errors import UsageError
from onward.rates import Rates, Told, counted, parse_caps, pool, told_by
from onward.settings import load_settings


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
