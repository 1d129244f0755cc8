"""Usage to money, by the offline table of genai-prices; what it does not know is unknown, not zero.

Prices are never derived from one another: the cache-read factor differs by model. What the table
lacks is filled in here: names, a place's surcharge, web searches, iterations, declined replies.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from genai_prices import Usage, calc_price
from genai_prices.types import PriceContext

from onward.messages import Attempt, Spend, Tally
from onward.usage import count, iterations

_FAMILY = re.compile(
    r"(?:anthropic/)?(?P<family>claude-(?:[a-z]+-\d(?:-\d)?|\d(?:-\d)?-[a-z]+))(?:[-@]\d{8}|-latest)?"
)
"""A model's id with or without a date; before Claude 4 the number came first."""
_PRICED_AS = {
    "claude-mythos-5": "claude-fable-5",
    "claude-mythos-5-1": "claude-fable-5-1",
    # Its own entry raises the price above 200,000 tokens, the size of its window. More are counted
    # only where a server's tool read several times for one reply, and no prompt was so long.
    "claude-sonnet-4-5": "claude-sonnet-4",
}
"""The name under which the table has a model's prices, where it is not the model's own."""
_FAST: PriceContext = {"speed": "fast"}
_US_SURCHARGE = Decimal("1.1")
_US_SINCE = (4, 6)
"""The first version that runs in a place of one's choice, for a surcharge on its tokens."""
_WEB_SEARCH_USD = Decimal("0.01")
_MTOK = 1_000_000
_OF_EACH = ("speed", "inference_geo")
"""What `usage` says once, and holds for each of its iterations."""
_BESIDE = ("server_tool_use", "output_tokens_details")
"""What it counts once, and in no iteration."""


def price_known(model: str) -> bool:
    """Say whether the table has a price for `model`."""
    return _cost(model, {"input_tokens": 1, "output_tokens": 1}) is not None


def output_for(dollars: Decimal, model: str, usage: Mapping[str, Any]) -> int | None:
    """Say how many tokens Claude may write for `dollars`, the prompt of `usage` paid first.

    Negative: the prompt alone costs more. None: the price is not known.
    """
    prompt = _cost(model, {**usage, "output_tokens": 0})
    longer = _cost(model, {**usage, "output_tokens": _MTOK})
    if prompt is None or longer is None:
        return None
    return int((dollars - prompt) * _MTOK / (longer - prompt))


def spend_of(attempts: Iterable[Attempt]) -> Spend:
    """Sum the attempts of one step. One that was never answered counts as lost and unpriced."""
    return sum((_spend(attempt) for attempt in attempts if attempt.sent), Spend())


def unbilled(message: Mapping[str, Any]) -> bool:
    """Say whether a reply costs nothing: Claude declined before it wrote anything."""
    return message.get("stop_reason") == "refusal" and not message.get("content")


# ---- a model's price


def _cost(model: str, usage: Mapping[str, Any]) -> Decimal | None:
    family, tally, fast = _family(model), _counted(usage), usage.get("speed") == "fast"
    try:
        found = calc_price(
            _usage(tally), family, provider_id="anthropic", price_context=_FAST if fast else {}
        )
    except LookupError:
        return None
    if fast and not any(variant.when == _FAST for variant in found.model.price_variants or ()):
        return None  # the table would answer with the price of the usual speed
    in_us = usage.get("inference_geo") == "us" and _version(family) >= _US_SINCE
    surcharge = _US_SURCHARGE if in_us else Decimal(1)
    return found.total_price * surcharge + _WEB_SEARCH_USD * tally.web_searches


def _family(model: str) -> str:
    # Whole or not at all: the table takes what only begins alike, a `…-turbo`, for the model.
    found = _FAMILY.fullmatch(model)
    family = found["family"] if found else ""
    return _PRICED_AS.get(family, family)


def _version(family: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", family))


def _usage(tally: Tally) -> Usage:
    written, for_an_hour = tally.cache_write_tokens, tally.cache_write_1h_tokens
    return Usage(
        input_tokens=tally.input_tokens + tally.cache_read_tokens + written,
        cache_read_tokens=tally.cache_read_tokens,
        cache_write_tokens=written,
        cache_write_5m_tokens=written - for_an_hour,
        cache_write_1h_tokens=for_an_hour,
        output_tokens=tally.output_tokens,
    )


# ---- an attempt's spend


def _spend(attempt: Attempt) -> Spend:
    models = _by_model(attempt)
    priced = not any(tally.unpriced_requests for tally in models.values())
    total = _request(models.values(), priced=priced)
    return Spend(
        **dict(total),
        lost_requests=0 if attempt.whole or _free(attempt) else 1,
        lost=Tally() if attempt.whole or _free(attempt) else total,
        models=models,
    )


def _free(attempt: Attempt) -> bool:
    return attempt.refused or attempt.unbilled


def _by_model(attempt: Attempt) -> dict[str, Tally]:
    if _free(attempt):
        return {attempt.model: Tally(requests=1)}
    if not attempt.usage:
        return {attempt.model: Tally(requests=1, unpriced_requests=1)}
    by_model = dict[str, list[Tally]]()
    for model, usage in _parts(attempt.model, attempt.usage):
        by_model.setdefault(model, []).append(_priced(model, usage))
    parts = [part for tallies in by_model.values() for part in tallies]
    priced = not any(part.unpriced_requests for part in parts)
    return {model: _request(tallies, priced=priced) for model, tallies in by_model.items()}


def _request(parts: Iterable[Tally], *, priced: bool) -> Tally:
    """Sum parts of one request, which is one whoever serves it."""
    one = {"requests": 1}
    # Part of a price would look like all of it.
    unpriced = {} if priced else {"unpriced_requests": 1, "cost_usd": Decimal(0)}
    return sum(parts, Tally()).model_copy(update={**one, **unpriced})


def _parts(model: str, usage: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield who did how much: tokens of a summary or an adviser stand in no top-level field."""
    parts = iterations(usage)
    if not parts:
        yield model, usage
        return
    shared = {name: usage[name] for name in _OF_EACH if name in usage}
    for entry in _billed(parts):
        yield entry.get("model") or model, {**shared, **entry}
    yield model, {name: usage[name] for name in _BESIDE if name in usage}


def _billed(parts: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Leave out a model that declined before any output, so that another one was asked."""
    fell_back = any(entry.get("type") == "fallback_message" for entry in parts)
    for entry in parts:
        declined = fell_back and entry.get("type") == "message" and not entry.get("output_tokens")
        if not declined:
            yield entry


def _priced(model: str, usage: Mapping[str, Any]) -> Tally:
    price = _cost(model, usage)
    known = {"unpriced_requests": 1} if price is None else {"cost_usd": price}
    return _counted(usage).model_copy(update=known)


def _counted(usage: Mapping[str, Any]) -> Tally:
    written, searched = _of(usage, "cache_creation"), _of(usage, "server_tool_use")
    for_an_hour = count(written, "ephemeral_1h_input_tokens")
    listed = count(written, "ephemeral_5m_input_tokens") + for_an_hour
    return Tally(
        input_tokens=count(usage, "input_tokens"),
        cache_read_tokens=count(usage, "cache_read_input_tokens"),
        cache_write_tokens=max(count(usage, "cache_creation_input_tokens"), listed),
        cache_write_1h_tokens=for_an_hour,
        output_tokens=count(usage, "output_tokens"),
        thinking_tokens=count(_of(usage, "output_tokens_details"), "thinking_tokens"),
        web_searches=count(searched, "web_search_requests"),
        web_fetches=count(searched, "web_fetch_requests"),
    )


def _of(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = usage.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}
