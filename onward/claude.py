"""The only module that imports `anthropic`: a request to a whole reply, an API error to a posture.

The client never retries by itself: Temporal is the one retry layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
from anthropic import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncAnthropic,
    AsyncStream,
)

from onward import json_text
from onward.claude_request import Request
from onward.stream import MessageFold, StreamBroken, UnknownDelta

READ_TIMEOUT_S = 300.0
"""Longest silence on the wire; the API sends pings while it thinks."""
_RETRIED = frozenset({408, 409, 429})
_STREAM_ERRORS_STOP = frozenset(
    {"invalid_request_error", "authentication_error", "permission_error", "not_found_error",
     "request_too_large", "billing_error"}
)  # fmt: skip
_NO_HINT_429_S = 20.0
_SPEND_LIMIT_S = 3600.0
_LONGEST_WAIT_S = 24 * 3600.0
"""A `retry-after` beyond this, or that is no number of seconds at all, is not believed."""
_TOO_LONG = ("prompt is too long", "exceed context limit")
"""How a 400 says that the conversation no longer fits the model's context window."""


@dataclass(frozen=True)
class Posture:
    """What an error of one request means for the next."""

    then: Literal["retry", "stop", "context_exceeded"]
    message: str
    """Status, type, request id and what to do, in one line."""
    delay_s: float | None = None
    """Seconds before the next try; None: the usual backoff."""
    sent: bool = True
    """False: certainly nothing reached the API, so no token was spent."""
    refused: bool = False
    """The API answered with an error instead of a reply, so no token was spent."""


class MidStreamError(Exception):
    """An `error` event inside a stream that began with 200."""

    def __init__(self, error: dict[str, Any], request_id: str | None) -> None:
        super().__init__(f"{error.get('type')}: {error.get('message')}")
        self.type = str(error.get("type"))
        self.request_id = request_id


def client(**options: Any) -> AsyncAnthropic:
    """Make the client of a worker. Key and base URL from the environment, as the SDK reads them."""
    timeout = httpx2.Timeout(READ_TIMEOUT_S, connect=5.0)
    return AsyncAnthropic(max_retries=0, timeout=timeout, **options)


async def ask(
    anthropic: AsyncAnthropic, request: Request, progress: Callable[[MessageFold], None]
) -> dict[str, Any]:
    """Send one request and return the whole reply as a dict for `json_text.dumps`.

    `progress` is called after every event with the fold so far. Raises what `posture` understands.
    """
    fold = MessageFold()
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    if request.betas:
        headers["anthropic-beta"] = ",".join(request.betas)
    stream = await anthropic.post(
        "/v1/messages",
        content=request.body,
        cast_to=object,
        stream=True,
        stream_cls=AsyncStream[object],
        options={"headers": headers},
    )
    async with stream:
        async for event in AsyncStream.raw_events(stream.response):
            if event.data:
                _take(fold, event.data, stream.response)
                progress(fold)
    return fold.message


def _take(fold: MessageFold, data: str, response: httpx2.Response) -> None:
    try:
        event = json_text.load_object(data)
    except ValueError as error:
        raise StreamBroken(f"an event of the stream is not JSON: {error}") from error
    if event.get("type") == "error":
        raise MidStreamError(event.get("error") or {}, response.headers.get("request-id"))
    try:
        fold.add(event)
    except (KeyError, TypeError, AttributeError) as error:
        raise StreamBroken(f"an event of the stream lacks its fields: {data[:80]!r}") from error


def posture(error: BaseException) -> Posture | None:
    """Say what an error of `ask` means; None if it is none of the API's or the wire's.

    Table: claude-api.md, section 6, with the traps that were measured there.
    """
    match error:
        case APIStatusError():
            return _status_posture(error)
        case MidStreamError():
            then: Literal["retry", "stop"] = (
                "stop" if error.type in _STREAM_ERRORS_STOP else "retry"
            )
            text = f"Claude answered with an error inside its stream, {error}"
            return Posture(then, f"{text} (request {error.request_id})")
        case UnknownDelta():
            return Posture("stop", f"Claude's reply cannot be kept without loss: {error}")
        case TypeError() if "authentication" in str(error):
            return Posture(
                "stop", f"no key for Claude's API: set ANTHROPIC_API_KEY. {error}", sent=False
            )
        case _:
            return _wire_posture(error)


def _wire_posture(error: BaseException) -> Posture | None:
    match error:
        case StreamBroken():
            return Posture("retry", f"Claude's reply did not arrive whole: {error}")
        case APITimeoutError():
            unsent = (httpx2.ConnectTimeout, httpx2.PoolTimeout)
            sent = not isinstance(error.__cause__, unsent)
            return Posture("retry", f"Claude did not answer in time: {error}", sent=sent)
        case APIConnectionError():
            cause = error.__cause__ or error
            sent = not isinstance(cause, httpx2.ConnectError)
            return Posture("retry", f"cannot reach Claude's API: {cause!r}", sent=sent)
        case httpx2.TransportError():
            return Posture("retry", f"the connection to Claude broke: {error!r}")
        case _:
            return None


def _status_posture(error: APIStatusError) -> Posture:
    status, kind = error.status_code, error.type
    line = f"Claude answered {status} {kind or ''}: {_words(error)} (request {error.request_id})"
    hint = {401: "Check ANTHROPIC_API_KEY.", 404: "Check the model's name."}.get(status)
    line = f"{line}. {hint}" if hint else line
    if status == 413 or (status == 400 and any(words in line for words in _TOO_LONG)):  # noqa: PLR2004
        return Posture("context_exceeded", line, refused=True)
    if not _retried(error):
        return Posture("stop", line, refused=True)
    return Posture("retry", line, delay_s=_delay_s(error), refused=True)


def _retried(error: APIStatusError) -> bool:
    match error.response.headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return error.status_code in _RETRIED or error.status_code >= 500  # noqa: PLR2004


def _delay_s(error: APIStatusError) -> float | None:
    headers = error.response.headers
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            delay_s = float(headers[name]) * unit_s
        except (KeyError, ValueError):
            continue
        if 0 <= delay_s <= _LONGEST_WAIT_S:
            return delay_s
    if error.status_code == 429:  # noqa: PLR2004
        # A monthly cap answers 429 without a hint and does so until next month (claude-api.md, 6).
        return _SPEND_LIMIT_S if "spend" in (error.error_code or "") else _NO_HINT_429_S
    return None


def _words(error: APIStatusError) -> str:
    return str(getattr(error, "api_message", None) or error.message)[:500]


def has_key(anthropic: AsyncAnthropic) -> bool:
    """Say whether the client found a key or token in its environment."""
    return bool(anthropic.api_key or anthropic.auth_token)
