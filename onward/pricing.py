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


def price_known(model: str) -> bool:
    """Say whether the table has a price for `model`."""
    return _cost(model, {"input_tokens": 1, "output_tokens": 1}) is not None


def spend_of(attempts: Iterable[Attempt]) -> Spend:
    """Sum the attempts of one step. One that was never answered counts as lost and unpriced."""
    return sum((_spend(attempt) for attempt in attempts if attempt.sent), Spend())


def _spend(attempt: Attempt) -> Spend:
    if attempt.refused:
        return Spend(requests=1)
    usage = attempt.usage
    cost = _cost(attempt.model, usage) if usage else None
    return Spend(
        requests=1,
        lost_requests=0 if attempt.whole else 1,
        input_tokens=usage.get("input_tokens") or 0,
        cache_read_tokens=usage.get("cache_read_input_tokens") or 0,
        cache_write_tokens=usage.get("cache_creation_input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cost_usd=cost or Decimal(0),
        unpriced_requests=1 if cost is None else 0,
    )


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
