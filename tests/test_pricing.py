"""What a request costs, to the cent: every figure is worked out by hand, as arithmetic."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from onward.messages import Attempt, Spend, Tally
from onward.pricing import output_for, price_known, spend_of, unbilled

MTOK = 1_000_000
UNKNOWN = "claude-atlas-9"

_10 = ("10", "12.5", "20")
PRICES = {
    **dict.fromkeys(("claude-fable-5-2", "claude-mythos-5-2"), ("8", "10", "16", "0.20", "40")),
    **dict.fromkeys(("claude-fable-5-1", "claude-mythos-5-1"), (*_10, "0.25", "50")),
    **dict.fromkeys(("claude-fable-5", "claude-mythos-5"), (*_10, "1", "50")),
    "claude-opus-5-5": ("4", "5", "8", "0.20", "20"),
    **dict.fromkeys(("claude-opus-5", "claude-opus-4-8"), ("5", "6.25", "10", "0.5", "25")),
    **dict.fromkeys(("claude-opus-4-7", "claude-opus-4-6"), ("5", "6.25", "10", "0.5", "25")),
    "claude-opus-4-5": ("5", "6.25", "10", "0.5", "25"),
    "claude-sonnet-5-5": ("2", "2.5", "4", "0.10", "10"),
    "claude-sonnet-5": ("2", "2.5", "4", "0.2", "10"),
    **dict.fromkeys(("claude-sonnet-4-6", "claude-sonnet-4-5"), ("3", "3.75", "6", "0.3", "15")),
    "claude-haiku-5-5": ("0.1", "0.125", "0.2", "0.01", "0.5"),
    "claude-haiku-4-5": ("1", "1.25", "2", "0.1", "5"),
}
"""Dollars for a million tokens: input, written for 5 minutes, for an hour, read, output."""


def used(
    *, fresh: int = 0, short: int = 0, hour: int = 0, read: int = 0, output: int = 0, **more: Any
) -> dict[str, Any]:
    """Make `usage` as the API reports it."""
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": short + hour,
        "cache_read_input_tokens": read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": short,
            "ephemeral_1h_input_tokens": hour,
        },
        "output_tokens": output,
        **more,
    }


def whole(usage: Mapping[str, Any], model: str = "claude-sonnet-5-5", **fields: Any) -> Spend:
    """Price one request that was answered."""
    return spend_of([Attempt(model=model, usage=dict(usage), whole=True, **fields)])


def usd(*parts: tuple[int, str]) -> Decimal:
    """Add up tokens at dollars for a million."""
    return sum((count * Decimal(price) / MTOK for count, price in parts), Decimal(0))


@pytest.mark.parametrize("model", PRICES)
def test_each_class_of_tokens_has_its_own_price(model: str) -> None:
    """No price is made from another one: the factors differ by model."""
    fresh, short, hour, read, output = PRICES[model]
    spent = whole(used(fresh=7, short=11, hour=13, read=17, output=19), model)
    assert spent.cost_usd == usd((7, fresh), (11, short), (13, hour), (17, read), (19, output))
    assert (spent.tokens, spent.unpriced_requests) == (7 + 11 + 13 + 17 + 19, 0)
    assert price_known(model)


@pytest.mark.field("E01")
def test_three_turns_with_caching_one_of_them_retried() -> None:
    """Writes count once, an hour's at its own rate, and what was read from the cache as read."""
    usage = used(fresh=1_000, read=50_000, short=2_000, hour=8_000, output=400)
    answered = Attempt(model="claude-sonnet-4-6", usage=usage, whole=True)
    lost = Attempt(model="claude-sonnet-4-6", usage={**usage, "output_tokens": 1})
    spent = sum((spend_of(each) for each in ([answered], [lost, answered], [answered])), Spend())
    prompt = usd((1_000, "3"), (50_000, "0.3"), (2_000, "3.75"), (8_000, "6"))
    assert prompt == Decimal("0.0735")
    assert spent.cost_usd == 4 * prompt + usd((3 * 400 + 1, "15"))
    assert (spent.requests, spent.lost_requests) == (4, 1)
    assert spent.lost.cost_usd == prompt + usd((1, "15"))
    assert (spent.cache_write_tokens, spent.cache_write_1h_tokens) == (4 * 10_000, 4 * 8_000)


FABLE, OPUS, HAIKU = "claude-fable-5-2", "claude-opus-5-5", "claude-haiku-5-5"


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        pytest.param(
            OPUS,
            used(fresh=1_000, read=500, output=100, speed="fast"),
            # Input and output at twice the price; what is read costs 0.05 of such input.
            usd((1_000, "8"), (500, "0.4"), (100, "40")),
            id="fast",
        ),
        pytest.param(
            FABLE,
            used(fresh=1_000, hour=100, output=10, inference_geo="us"),
            usd((1_000, "8"), (100, "16"), (10, "40")) * Decimal("1.1"),
            id="in the US",
        ),
        pytest.param(
            OPUS,
            used(fresh=1_000, output=10, speed="fast", inference_geo="us"),
            usd((1_000, "8"), (10, "40")) * Decimal("1.1"),
            id="fast and in the US",
        ),
        pytest.param(
            "claude-sonnet-4-5",
            used(fresh=1_000, output=10, inference_geo="us"),
            usd((1_000, "3"), (10, "15")),
            id="older models know no place",
        ),
        pytest.param(
            FABLE,
            used(
                fresh=1_000,
                inference_geo="us",
                server_tool_use={"web_search_requests": 3, "web_fetch_requests": 5},
            ),
            usd((1_000, "8")) * Decimal("1.1") + 3 * Decimal(10) / 1_000,
            id="searches cost alike everywhere, fetches nothing",
        ),
        pytest.param(
            HAIKU,
            used(fresh=60_000, read=30_000, short=10_000, output=200_000),
            usd((60_000, "0.1"), (30_000, "0.01"), (10_000, "0.125"), (200_000, "0.5")),
            id="haiku's prompt of 100k",
        ),
        pytest.param(
            HAIKU,
            used(fresh=60_000, read=30_000, short=10_001, output=10),
            usd((60_000, "0.5"), (30_000, "0.05"), (10_001, "0.625"), (10, "2.5")),
            id="haiku's prompt beyond 100k: every token",
        ),
        pytest.param(
            OPUS,
            used(fresh=10, output=100, output_tokens_details={"thinking_tokens": 90}),
            usd((10, "4"), (100, "20")),
            id="thinking is part of the output",
        ),
        pytest.param(
            "claude-sonnet-5-5",
            {"input_tokens": 10, "cache_creation_input_tokens": None, "output_tokens": 1},
            usd((10, "2"), (1, "10")),
            id="nulls",
        ),
        pytest.param(
            "claude-sonnet-5-5",
            {"input_tokens": 10, "cache_creation_input_tokens": 100, "output_tokens": 1},
            usd((10, "2"), (100, "2.5"), (1, "10")),
            id="writes without a lifetime are for 5 minutes",
        ),
    ],
)
def test_what_the_table_lacks_is_filled_in(
    model: str, usage: dict[str, Any], dollars: Decimal
) -> None:
    """Fast mode, places, searches and haiku's long prompts cost what the price page says."""
    spent = whole(usage, model)
    assert spent.cost_usd == dollars
    assert (spent.models[model].cost_usd, spent.unpriced_requests) == (dollars, 0)


def test_each_iteration_is_priced_at_the_model_that_served_it() -> None:
    """Tokens of a summary and of an adviser stand in no top-level field, and cost all the same."""
    usage = {
        **used(fresh=1_100, output=30, server_tool_use={"web_search_requests": 1}),
        "output_tokens_details": {"thinking_tokens": 12},
        "inference_geo": "us",
        "iterations": [
            {"type": "message", "model": None, **used(fresh=600, output=10)},
            {"type": "compaction", **used(fresh=9_000, output=700)},
            {"type": "advisor_message", "model": OPUS, **used(fresh=50, output=5)},
            {"type": "message", **used(fresh=500, output=20)},
        ],
    }
    spent = whole(usage, FABLE)
    ours = usd((600 + 9_000 + 500, "8"), (10 + 700 + 20, "40")) * Decimal("1.1") + Decimal("0.01")
    adviser = usd((50, "4"), (5, "20")) * Decimal("1.1")
    assert {name: tally.cost_usd for name, tally in spent.models.items()} == {
        FABLE: ours,
        OPUS: adviser,
    }
    assert spent.cost_usd == ours + adviser
    assert (spent.requests, spent.models[OPUS].requests) == (1, 1)
    assert (spent.input_tokens, spent.thinking_tokens) == (600 + 9_000 + 50 + 500, 12)


def test_iterations_of_haiku_have_a_long_prompt_each_for_itself() -> None:
    """Two prompts of 60,000 tokens are no prompt of 120,000."""
    usage = {"iterations": [{"type": "message", **used(fresh=60_000)}] * 2}
    assert whole(usage, HAIKU).cost_usd == usd((120_000, "0.1"))


def test_a_model_that_declined_for_another_one_is_not_paid() -> None:
    """A fallback pays the model that answered; who declined before any output costs nothing."""
    usage = used(fresh=412, output=264) | {
        "iterations": [
            {"type": "message", "model": "claude-fable-5", **used(fresh=408)},
            {"type": "fallback_message", "model": "claude-opus-4-8", **used(fresh=412, output=264)},
        ]
    }
    spent = whole(usage, "claude-fable-5")
    assert spent.cost_usd == spent.models["claude-opus-4-8"].cost_usd
    assert spent.cost_usd == usd((412, "5"), (264, "25"))


def test_a_refusal_costs_only_what_was_written() -> None:
    """Declined before any output: nothing, whatever `usage` says. After some: as usual."""
    usage = used(fresh=18, output=5)
    early: dict[str, Any] = {"stop_reason": "refusal", "content": [], "usage": usage}
    late = early | {"content": [{"type": "text", "text": "First,"}]}
    assert (unbilled(early), unbilled(late), unbilled({"content": []})) == (True, False, False)
    free = whole(usage, "claude-fable-5", unbilled=True)
    assert free == Spend(requests=1, models={"claude-fable-5": Tally(requests=1)})
    assert whole(usage, "claude-fable-5").cost_usd == usd((18, "10"), (5, "50"))


@pytest.mark.parametrize(
    ("model", "more"), [(UNKNOWN, {}), ("claude-sonnet-5-5", {"speed": "fast"})]
)
def test_an_unknown_price_is_unknown_and_never_zero(model: str, more: dict[str, Any]) -> None:
    """The tokens are exact, the request is counted as unpriced, and its model is named."""
    spent = whole(used(fresh=10, read=20, output=30, **more), model)
    assert (spent.tokens, spent.cost_usd, spent.unpriced_requests) == (60, Decimal(0), 1)
    assert (spent.models[model].tokens, spent.models[model].unpriced_requests) == (60, 1)
    assert not price_known(UNKNOWN)


def test_a_request_is_priced_whole_or_not_at_all() -> None:
    """An adviser without a price leaves the request without: a part would look like all."""
    adviser = {"type": "advisor_message", "model": UNKNOWN, **used(fresh=50, output=5)}
    usage = {"iterations": [{"type": "message", **used(fresh=600)}, adviser]}
    spent = whole(usage, FABLE)
    assert (spent.cost_usd, spent.unpriced_requests, spent.tokens) == (Decimal(0), 1, 655)
    assert {name: tally.tokens for name, tally in spent.models.items()} == {FABLE: 600, UNKNOWN: 55}


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5@20250929", "anthropic/claude-sonnet-4-5"],
)
def test_a_dated_id_has_its_familys_price(model: str) -> None:
    """The API answers with the dated name; it is shown as it is, and priced."""
    spent = whole(used(fresh=1_000), model)
    assert (spent.cost_usd, [*spent.models]) == (usd((1_000, "3")), [model])


@pytest.mark.parametrize("model", ["claude-sonnet-4-5-turbo", "us.anthropic.claude-opus-5-5"])
def test_a_name_that_only_looks_alike_has_no_price(model: str) -> None:
    """Another deployment of a model may have another price: it is not guessed."""
    assert not price_known(model)


def test_lost_requests_are_counted_apart_and_in_the_total() -> None:
    """Refused and never sent ones are not lost; of a silent one only the model is known."""
    model = "claude-sonnet-5-5"
    reported = Attempt(model=model, usage=used(fresh=100, output=1))
    silent, answered = Attempt(model=model), Attempt(model=model, usage=used(fresh=9), whole=True)
    refused, unsent = Attempt(model=model, refused=True), Attempt(model=model, sent=False)
    spent = spend_of([reported, silent, refused, unsent, answered])
    assert (spent.requests, spent.lost_requests, spent.unpriced_requests) == (4, 2, 1)
    assert spent.lost == Tally(
        requests=2,
        input_tokens=100,
        output_tokens=1,
        cost_usd=usd((100, "2"), (1, "10")),
        unpriced_requests=1,
    )
    assert spent.input_tokens == 109
    assert spent.models[model].requests == 4


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": "many", "output_tokens": 3},
        {"input_tokens": -5, "output_tokens": 3, "cache_creation": 7},
        {"output_tokens": 3, "server_tool_use": None, "iterations": 5},
    ],
)
def test_odd_usage_loses_no_reply(usage: dict[str, Any]) -> None:
    """What a proxy writes there is counted as far as it makes sense, and raises nothing."""
    assert whole(usage).cost_usd == usd((3, "10"))


def test_money_buys_a_reply_after_its_prompt() -> None:
    """A cent buys 900 tokens of output where the prompt takes a tenth of it; a dear prompt none."""
    cent = Decimal("0.01")
    assert output_for(cent, "claude-sonnet-5-5", used(fresh=500)) == 900
    assert output_for(cent, "claude-sonnet-5-5", used(fresh=6_000)) == -200
    assert output_for(cent, UNKNOWN, {}) is None
