"""What an answer that is no reply means for the next request to Claude: one table.

docs/claude-errors.md tells it to people. What never was an answer is in `onward/claude.py`.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""By type: of an error inside a stream the status is 200, and says nothing."""
LEAST_REPLY_TOKENS = 1024
"""A reply that may be shorter still is not worth asking for."""

_RETRIED = frozenset({408, 409, 429})
_SERVER_FAULT = 500
_NO_HINT_429_S = 20.0
_FOR_A_PERSON_S = 3600.0
_LONGEST_HINT_S = 24 * 3600.0
"""A `retry-after` beyond this, or that is no number of seconds at all, is not believed."""

_UNPAID = ("credit balance", "usage limits", "spend limit", "spending limit")
"""How a 400 says that a person must pay, or raise a limit that a person set."""
_TOO_LONG = ("prompt is too long", "exceed context limit")
"""How a 400 says that the conversation no longer fits the model's context window."""
_OVER_MAXIMUM = re.compile(r"max_tokens: (\d+) > (\d+)")
_OVER_WINDOW = re.compile(r"exceed context limit:\s+(\d+)\s+\+\s+(\d+)\s+>\s+(\d+)")

_PAY = (
    "A person must raise the limit or add credit in the Claude Console; the run asks again every "
    "hour and goes on by itself"
)
_HINTS = {
    401: "Check ANTHROPIC_API_KEY",
    403: "Check what the key and its workspace may use",
    404: "Check the model's name",
}


@dataclass(frozen=True)
class Posture:
    """What an error of one request means for the next."""

    then: Literal["retry", "lower", "unstreamed", "stop", "context_exceeded"]
    """`lower`: retry with `max_tokens`. `unstreamed`: retry, and ask for the reply in one piece."""
    message: str
    """Status, type, request id and what to do, in one line."""
    delay_s: float | None = None
    """Seconds before the next try; None: the usual backoff."""
    sent: bool = True
    """False: certainly nothing reached the API, so no token was spent."""
    refused: bool = False
    """Something else than a reply came back, so no token was spent."""
    misconfigured: bool = False
    """The worker's settings lead elsewhere than to Claude's API."""
    rate_limited: bool = False
    """Other requests for the model would be refused too, until `delay_s` have passed."""
    hinted: bool = False
    """The answer says itself what `delay_s` is."""
    for_people: bool = False
    """It lasts until somebody pays, or raises a limit at the API."""
    max_tokens: int = 0
    """The most that the API allows; 0: it did not say."""


@dataclass(frozen=True)
class Refusal:
    """An error that came as an answer, in place of a reply or in the middle of one."""

    status: int
    kind: str | None
    """`error.type`; None: the answer has not the shape of Claude's API."""
    words: str
    request_id: str | None
    place: str
    """Where it came from, as people are told."""
    code: str = ""
    """`error.details.error_code`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    in_stream: bool = False
    begun: bool = False
    """A reply had begun before it, and its tokens may have to be paid."""

    def __str__(self) -> str:
        words = " ".join(self.words.split())
        if self.kind is None:
            return f"{self.place} answered {self.status}: {words[:100]!r}"
        how = "with an error inside its stream," if self.in_stream else str(self.status)
        return f"Claude answered {how} {self.kind}: {words[:500]} (request {self.request_id})"


def posture_of(told: Refusal) -> Posture:
    """Say what a refusal means: the first row that fits holds."""
    if _needs_a_person(told):
        wait_s = max(_hint_s(told) or 0.0, _FOR_A_PERSON_S)
        return _posture("retry", told, _PAY, delay_s=wait_s, for_people=True)
    if (allowed := _allowed_tokens(told)) is not None:
        if allowed >= LEAST_REPLY_TOKENS:
            why = f"The next request allows {allowed:,} tokens"
            return _posture("lower", told, why, delay_s=0.0, max_tokens=allowed)
        return _posture("context_exceeded", told)
    if told.status == 413 or _says(told, _TOO_LONG):  # noqa: PLR2004
        return _posture("context_exceeded", told)
    if told.status == 200 or _retried(told):  # noqa: PLR2004
        limited = told.status == 429  # noqa: PLR2004
        return _posture("retry", told, delay_s=_delay_s(told), rate_limited=limited)
    return _posture("stop", told, _HINTS.get(told.status, ""))


def _posture(
    then: Literal["retry", "lower", "stop", "context_exceeded"],
    told: Refusal,
    advice: str = "",
    *,
    delay_s: float | None = None,
    rate_limited: bool = False,
    for_people: bool = False,
    max_tokens: int = 0,
) -> Posture:
    # A gateway speaks for an API that is away in words of its own.
    misconfigured = told.kind is None and not _may_pass(told.status)
    if misconfigured:
        advice = "That is no Messages API: check ANTHROPIC_BASE_URL (it ends before /v1)"
    return Posture(
        then,
        f"{told}. {advice}" if advice else str(told),
        delay_s,
        refused=not told.begun,
        misconfigured=misconfigured,
        rate_limited=rate_limited,
        hinted=_hint_s(told) is not None,
        for_people=for_people,
        max_tokens=max_tokens,
    )


def _needs_a_person(told: Refusal) -> bool:
    """Say whether this lasts until somebody pays, or a month ends."""
    if told.status == 402 or (told.status == 429 and "spend" in told.code):  # noqa: PLR2004
        return True
    if told.status == 400:  # noqa: PLR2004
        return _says(told, _UNPAID)
    # A cap need not name itself: it answers 429, and not even says when to ask again.
    final = told.headers.get("x-should-retry") == "false"
    return told.status == 429 and final and _hint_s(told) is None  # noqa: PLR2004


def _allowed_tokens(told: Refusal) -> int | None:
    """Return the most that `max_tokens` may be, where it was refused for its size."""
    if told.status != 400:  # noqa: PLR2004
        return None
    if (found := _OVER_MAXIMUM.search(told.words)) and int(found[1]) > int(found[2]):
        return int(found[2])
    if found := _OVER_WINDOW.search(told.words):
        return int(found[3]) - int(found[1])
    return None


def _says(told: Refusal, phrases: tuple[str, ...]) -> bool:
    return told.status == 400 and any(words in told.words.lower() for words in phrases)  # noqa: PLR2004


def _retried(told: Refusal) -> bool:
    match told.headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return told.status == 429  # noqa: PLR2004
        case _:
            return _may_pass(told.status)


def _may_pass(status: int) -> bool:
    return status in _RETRIED or status >= _SERVER_FAULT


def _delay_s(told: Refusal) -> float | None:
    hint_s = _hint_s(told)
    if hint_s is None and told.status == 429:  # noqa: PLR2004
        return _NO_HINT_429_S
    return hint_s


def _hint_s(told: Refusal) -> float | None:
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        delay_s = _seconds(told.headers.get(name, ""), unit_s)
        if delay_s is not None and 0 <= delay_s <= _LONGEST_HINT_S:
            return delay_s
    return None


def _seconds(text: str, unit_s: float) -> float | None:
    with suppress(ValueError):
        return float(text) * unit_s
    with suppress(ValueError):
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    return None
