"""Usage to money, by the offline table of genai-prices; what it does not know is unknown, not zero.

Prices are never derived from one another: the cache-read factor differs by model
(claude-api.md, section 3).
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from genai_prices import calc_price, extract_usage
from genai_prices.types import PriceContext

from onward.messages import Attempt, Spend

_US_SURCHARGE = Decimal("1.1")
_OF_THE_WHOLE = ("speed", "inference_geo")
"""What `usage` says once for all its iterations."""
_NO_TOKENS = {"input_tokens": 0, "output_tokens": 0}
_MTOK = 1_000_000


def price_known(model: str) -> bool:
    """Say whether the table has a price for `model`."""
    return _cost(model, {"input_tokens": 1, "output_tokens": 1}) is not None


def output_for(dollars: Decimal, model: str, usage: dict[str, Any]) -> int | None:
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


def _spend(attempt: Attempt) -> Spend:
    if attempt.refused:
        return Spend(requests=1)
    parts = list(_parts(attempt.model, attempt.usage))
    costs = [_cost(model, usage) for model, usage in parts if usage]
    known = [cost for cost in costs if cost is not None]
    priced = bool(known) and len(known) == len(costs)
    return Spend(
        requests=1,
        lost_requests=0 if attempt.whole else 1,
        input_tokens=_sum(parts, "input_tokens"),
        cache_read_tokens=_sum(parts, "cache_read_input_tokens"),
        cache_write_tokens=_sum(parts, "cache_creation_input_tokens"),
        output_tokens=_sum(parts, "output_tokens"),
        cost_usd=sum(known, Decimal(0)) if priced else Decimal(0),
        unpriced_requests=0 if priced else 1,
    )


def _parts(model: str, usage: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield who did how much: tokens of a summary or an adviser stand in no top-level field."""
    iterations: list[dict[str, Any]] = usage.get("iterations") or []
    if not iterations:
        yield model, usage
        return
    shared = {name: usage[name] for name in _OF_THE_WHOLE if name in usage}
    for entry in iterations:
        yield entry.get("model") or model, {**entry, **shared}
    if searched := usage.get("server_tool_use"):
        yield model, {**shared, **_NO_TOKENS, "server_tool_use": searched}


def _sum(parts: Iterable[tuple[str, dict[str, Any]]], name: str) -> int:
    return sum(usage.get(name) or 0 for _, usage in parts)


def _cost(model: str, usage: dict[str, Any]) -> Decimal | None:
    speed = usage.get("speed")
    context: PriceContext = {"speed": "fast"} if speed == "fast" else {}
    try:
        counts = extract_usage({"model": model, "usage": usage}, provider_id="anthropic").usage
        price = calc_price(counts, model, provider_id="anthropic", price_context=context)
    except (LookupError, ValueError, TypeError, AttributeError):
        return None
    surcharge = _US_SURCHARGE if usage.get("inference_geo") == "us" else Decimal(1)
    return price.total_price * surcharge
