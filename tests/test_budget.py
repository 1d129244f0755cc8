"""How long a reply may be when a run has little left to spend, to the token and to the cent."""

import json
import time
from decimal import Decimal
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.budget import Budget
from onward.claude_request import Request, reply_request
from onward.messages import (
    ClaudeInput,
    ContextUse,
    GiveUp,
    Head,
    Limits,
    Opening,
    Rest,
    RunRef,
    Spend,
    Witness,
)
from onward.transcript import Turn

RUN = RunRef(workflow_id="w", first_run_id="r", run_id="r", original_run_id="r")
WITNESS, HEAD = Witness(nonce="n", inc="i", run_id="r"), Head(step="0", digest="d")
CONTEXT = ContextUse(tokens=100_000)
TURN = Turn(content='"' + "x" * 2998 + '"')
"""Counts as 1,000 tokens."""
NOTHING = Spend()
SONNET = {"model": "claude-sonnet-5-5", "max_tokens": 16_000}


def affordable(
    rest: Rest | None,
    *,
    frozen: dict[str, Any] = SONNET,
    spent: Spend = NOTHING,
    cache: str = "auto",
    **given: Any,
) -> Request:
    """Ask how long a reply may be, after 100,000 tokens of conversation and a turn of 1,000."""
    text = json.dumps(frozen)
    asked = ClaudeInput.model_validate(
        {
            "run": RUN,
            "agent": "a",
            "step": "2",
            "head": HEAD,
            "additions": (),
            "witness": WITNESS,
            "takeover_s": 1,
            "rest": rest,
            "context": CONTEXT,
            **given,
        }
    )
    opening = Opening.model_validate(
        {
            "frozen": text,
            "effects": {},
            "limits": Limits(),
            "witness": WITNESS,
            "head": HEAD,
            "takeover_s": 1,
            "cache": cache,
        }
    )
    request = reply_request(text, [b'{"role":"user","content":"Go."}'])
    return Budget(asked, opening, TURN, spent).affordable(request)


def refused(rest: Rest, **options: Any) -> tuple[str, GiveUp]:
    """Ask where a limit is met: returns what people are told, and what the workflow is."""
    with pytest.raises(ApplicationError) as caught:
        affordable(rest, **options)
    assert (caught.value.type, caught.value.non_retryable) == ("limit", True)
    return caught.value.message, GiveUp.model_validate(caught.value.details[0])


@pytest.mark.parametrize(
    ("frozen", "cache", "cost", "tokens"),
    [
        # 100,000 read at 0.10 and 1,000 written at 2.50 a million cost $0.0125, and the rest buys
        # at 10.
        (SONNET, "auto", "0.05", 3750),
        (SONNET, "off", "0.2520", 5000),
        # Written for an hour, 1,000 cost 4 a million: $0.014.
        (SONNET, "1h", "0.05", 3600),
        # 0.04 + 0.01, twice as much for speed and a tenth more in the US: $0.11; at 88 a million.
        ({**SONNET, "model": "claude-fable-5-2", "speed": "fast"}, "auto", "0.26", 2500),
    ],
)
def test_a_reply_is_as_long_as_the_rest_can_buy(
    frozen: dict[str, Any], cache: str, cost: str, tokens: int
) -> None:
    """The prompt is paid first: what is known as read from the cache, what is new as written."""
    request = affordable(Rest(cost_usd=Decimal(cost)), frozen=frozen, cache=cache)
    assert (request.max_tokens, request.lowered) == (tokens, "limit_cost")
    assert json.loads(request.body)["max_tokens"] == tokens


@pytest.mark.parametrize(
    ("rest", "tokens"),
    [
        (Rest(tokens=104_000), 3000),
        (Rest(output_tokens=2000), 2000),
        (Rest(tokens=104_000, output_tokens=2000, cost_usd=Decimal(5)), 2000),
    ],
)
def test_a_reply_is_as_long_as_the_tightest_limit_of_tokens(rest: Rest, tokens: int) -> None:
    """Of all tokens the prompt takes its part first; of output tokens it takes none."""
    request = affordable(rest)
    assert (request.max_tokens, request.lowered) == (tokens, "limit_tokens")


def test_what_the_rest_can_buy_is_asked_for_unchanged() -> None:
    """A run far from its limits sends what its agent says, and so does one of before 0.4."""
    rich = Rest(cost_usd=Decimal(5), tokens=10**6, output_tokens=10**6, until_ms=2**53)
    for rest in (rich, None):
        request = affordable(rest)
        assert (request.max_tokens, request.lowered) == (16_000, None)


def test_attempts_that_were_lost_are_taken_off_what_is_left() -> None:
    """What the step's earlier attempts used is no longer there, though no reply came of it."""
    lost = Spend(requests=1, input_tokens=10_000, output_tokens=500, cost_usd=Decimal("0.02"))
    assert affordable(Rest(cost_usd=Decimal("0.07")), spent=lost).max_tokens == 3750
    assert affordable(Rest(tokens=114_500), spent=lost).max_tokens == 3000
    assert affordable(Rest(output_tokens=2000), spent=lost).max_tokens == 1500
    text, told = refused(Rest(cost_usd=Decimal("0.02")), spent=lost)
    assert text.startswith("$0.0000 may still be spent")
    assert (told.limit, told.spend) == ("limit_cost", lost)


@pytest.mark.parametrize(
    ("rest", "outcome", "left"),
    [
        (Rest(cost_usd=Decimal("0.0227")), "limit_cost", "$0.0227"),
        (Rest(tokens=102_023), "limit_tokens", "102,023 tokens"),
        (Rest(output_tokens=1023), "limit_tokens", "1,023 output tokens"),
        (Rest(cost_usd=Decimal(-1)), "limit_cost", "$0.0000"),
    ],
)
def test_less_than_a_short_reply_is_no_reply(rest: Rest, outcome: str, left: str) -> None:
    """Under 1,024 tokens the limit is met: nothing is sent, and the text says what was left."""
    text, told = refused(rest)
    assert told.limit == outcome
    about = "too little for a prompt of about 101,000 tokens and a reply of 1,024"
    assert text == f"{left} may still be spent: {about}"


def test_an_agent_of_short_replies_gets_them_to_the_end() -> None:
    """An agent whose replies are shorter than 1,024 tokens is not stopped for their shortness."""
    short = {**SONNET, "max_tokens": 300}
    assert affordable(Rest(output_tokens=300), frozen=short).lowered is None
    assert refused(Rest(output_tokens=299), frozen=short)[1].limit == "limit_tokens"


def test_a_reply_has_room_for_its_thinking_or_is_not_asked_for() -> None:
    """The API refuses fewer tokens than thinking may take: the limit is met, no 400 is got."""
    thinks = {"type": "enabled", "budget_tokens": 4000}
    frozen = {**SONNET, "model": "claude-sonnet-4-5", "thinking": thinks}
    assert affordable(Rest(output_tokens=4001), frozen=frozen).max_tokens == 4001
    assert refused(Rest(output_tokens=4000), frozen=frozen)[1].limit == "limit_tokens"


def test_time_that_is_up_lets_nothing_be_sent() -> None:
    """An attempt of after the time limit sends no request, as during an outage."""
    now_ms = int(time.time() * 1000)
    assert affordable(Rest(until_ms=now_ms + 60_000)).lowered is None
    text, told = refused(Rest(until_ms=now_ms - 1))
    assert (text, told.limit) == ("the run's time is up", "limit_time")


def test_a_reply_that_was_cut_off_gets_more_room_as_far_as_the_model_goes() -> None:
    """A redo may be longer than the agent says, not longer than the model or the rest allow."""
    assert affordable(None, max_tokens=32_000).max_tokens == 32_000
    assert affordable(None, max_tokens=200_000).max_tokens == 128_000
    request = affordable(Rest(output_tokens=20_000), max_tokens=32_000)
    assert (request.max_tokens, request.lowered) == (20_000, "limit_tokens")


def test_an_unknown_price_leaves_the_limits_of_tokens() -> None:
    """No cost is guessed: tokens bound a run whose model has no known price."""
    unknown = {**SONNET, "model": "nobody-knows-1"}
    rest = Rest(cost_usd=Decimal("0.000001"), tokens=104_000)
    assert affordable(rest, frozen=unknown).lowered == "limit_tokens"


def test_a_first_request_counts_system_prompt_tools_and_prompt() -> None:
    """Nothing is known to Claude yet, so all of it is written to the cache at its price."""
    frozen = {**SONNET, "system": "x" * 30_000}
    known = len(json.dumps(frozen)) // 3
    left = Decimal(known + 1000) * Decimal("0.0000025") + Decimal("0.02")
    request = affordable(Rest(cost_usd=left), frozen=frozen, context=None)
    assert (request.max_tokens, request.lowered) == (2000, "limit_cost")
