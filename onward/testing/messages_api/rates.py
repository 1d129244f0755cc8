"""Rate limits that the scripted server keeps, as the API documents its own.

Of each model, a token bucket for requests, one for input tokens and one for output tokens. A bucket
holds one minute's worth, starts full and refills all the time. A request is let in where there is
room for it and for its uncached input; its output counts as it comes, so only what earlier ones
wrote can keep it out. Else it gets a 429 with `retry-after`. Each response tells how full they are.
"""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from aiohttp import web

from onward.rates import Rates, counted
from onward.testing.messages_api.journal import Entry
from onward.testing.messages_api.literal_json import Object
from onward.testing.messages_api.refusals import error_body, request_id

_MINUTE_S = 60.0
_KINDS = ("requests", "input-tokens", "output-tokens")


class _Bucket:
    def __init__(self, limit: float) -> None:
        self.limit, self.level, self._at = limit, limit, time.monotonic()

    def seconds_to(self, level: float) -> float:
        """Refill; return the seconds until it holds `level`, or is full. 0: it does."""
        now = time.monotonic()
        self.level = min(self.limit, self.level + (now - self._at) * self.limit / _MINUTE_S)
        self._at = now
        return max(min(level, self.limit) - self.level, 0) * _MINUTE_S / self.limit


class RateLimiter:
    """The buckets of all models that have limits."""

    def __init__(self, limits: Mapping[str, Rates]) -> None:
        self._models = {model: _buckets(rates) for model, rates in limits.items()}

    def drain(self, *, leaving_s: float = 0) -> None:
        """Leave in each bucket what comes in so many seconds; none after a minute at the limit."""
        for bucket in (each for buckets in self._models.values() for each in buckets.values()):
            bucket.seconds_to(0)
            bucket.level = bucket.limit * leaving_s / _MINUTE_S

    def refusal(self, model: str, usage: Object, entry: Entry) -> web.Response | None:
        """Charge a request that will count `usage`; or refuse it, and charge nothing."""
        buckets, costs = self._models.get(model, {}), _by_kind(counted(usage))
        for kind, bucket in buckets.items():
            needed = costs[kind] if kind != "output-tokens" else 1
            if seconds := bucket.seconds_to(needed):
                text = f"{bucket.limit:,.0f} {kind.replace('-', ' ')} per minute (model: {model})"
                return self._refused(model, text, seconds, entry)
        for kind, bucket in buckets.items():
            bucket.level -= costs[kind]
        return None

    def headers(self, model: str) -> dict[str, str]:
        """Tell limit, rest and time of full replenishment of each bucket, as the API does."""
        told: dict[str, str] = {}
        for kind, bucket in self._models.get(model, {}).items():
            full = datetime.now(UTC) + timedelta(seconds=bucket.seconds_to(bucket.limit))
            left = max(bucket.level, 0)
            told[f"anthropic-ratelimit-{kind}-limit"] = f"{bucket.limit:.0f}"
            told[f"anthropic-ratelimit-{kind}-remaining"] = (
                f"{int(left)}" if kind == "requests" else f"{round(left, -3):.0f}"
            )
            told[f"anthropic-ratelimit-{kind}-reset"] = f"{full:%Y-%m-%dT%H:%M:%SZ}"
        return told

    def _refused(self, model: str, limit: str, seconds: float, entry: Entry) -> web.Response:
        entry.status, entry.outcome = 429, f"429 rate limit of {limit}"
        words = f"This request would exceed your organization's rate limit of {limit}."
        text = error_body({"type": "rate_limit_error", "message": words}, entry.body_sha256)
        headers = {
            "request-id": request_id(entry.body_sha256),
            "retry-after": str(math.ceil(seconds)),
            **self.headers(model),
        }
        return web.Response(status=429, text=text, content_type="application/json", headers=headers)


def _buckets(rates: Rates) -> dict[str, _Bucket]:
    return {kind: _Bucket(limit) for kind, limit in _by_kind(rates).items() if limit}


def _by_kind(rates: Rates) -> dict[str, float]:
    values = (rates.requests, rates.input_tokens, rates.output_tokens)
    return {kind: value or 0 for kind, value in zip(_KINDS, values, strict=True)}
