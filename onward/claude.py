"""The only module that imports `anthropic`: a request to a whole reply, an error to a posture.

The client never retries by itself: Temporal is the one retry layer.
"""

import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import httpx2
from anthropic import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncAnthropic,
    AsyncStream,
    RequestOptions,
)

from onward import json_text
from onward.claude_errors import STATUS_OF, Posture, Refusal, posture_of
from onward.claude_request import Request
from onward.errors import UsageError
from onward.stream import MessageFold, StreamBroken, Unanswerable, UnknownDelta

SILENCE_S = 300.0
"""Longest silence on the wire; in a stream the API sends pings while it thinks."""
_IN_ONE_PIECE_S = 900.0
"""Longest silence before a reply that is not streamed: the API itself gives up sooner."""
_CONNECT_S = 5.0
_PATH = "/v1/messages"
_OFFICIAL = "https://api.anthropic.com"
_IN_PIECES = ("text/event-stream", "application/octet-stream", "")
"""Types of content that may be a stream of events; gateways forget to name theirs."""
_DEEPEST = 500
"""Parsers of JSON break at depths that depend on the stack they run on."""


Progress: TypeAlias = Callable[[MessageFold, Mapping[str, Any]], None]
"""Is told of the fold so far, and of the event that it took last."""
Heard: TypeAlias = Callable[[Mapping[str, str]], None]
"""Is told of the headers of an answer as soon as it begins, an error's too."""


class Refused(Exception):
    """An error, or something that is no reply, came after a 200."""

    def __init__(self, told: Refusal) -> None:
        super().__init__(str(told))
        self.told = told


def client(*, silence_s: float = SILENCE_S, **options: Any) -> AsyncAnthropic:
    """Make the client of a worker. Key and base URL from the environment, as the SDK reads them.

    Raises `UsageError` where the base URL is none.
    """
    # The SDK takes an empty variable for an address, and would ask there again and again.
    _refuse_no_url(options.get("base_url", os.environ.get("ANTHROPIC_BASE_URL", _OFFICIAL)))
    timeout = httpx2.Timeout(silence_s, connect=_CONNECT_S)
    return AsyncAnthropic(max_retries=0, timeout=timeout, **options)


def _refuse_no_url(base_url: str) -> None:
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL as error:
        raise UsageError(f"ANTHROPIC_BASE_URL is no URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        address = f"{url.scheme}://{url.netloc.decode()}"
        found = repr(address) if url.host else "no http:// or https:// address"
        raise UsageError(f"ANTHROPIC_BASE_URL begins with {found}; expected {_OFFICIAL!r} or so")


async def ask(
    anthropic: AsyncAnthropic, request: Request, progress: Progress, heard: Heard
) -> dict[str, Any]:
    """Send one request and return the whole reply as a dict for `json_text.dumps`.

    `progress` is called after every event but the last, `heard` before. Raises what `posture`
    understands.
    """
    try:
        stream = await _sent(anthropic, request)
    except APIStatusError as error:
        heard(error.response.headers)
        raise
    async with stream:
        heard(stream.response.headers)
        with _named(stream.response):
            return await _reply(stream.response, progress)


async def _sent(anthropic: AsyncAnthropic, request: Request) -> AsyncStream[object]:
    accepted = "text/event-stream" if request.stream else "application/json"
    headers = {"content-type": "application/json", "accept": accepted}
    if request.betas:
        headers["anthropic-beta"] = ",".join(request.betas)
    options: RequestOptions = {"headers": headers}
    if not request.stream:
        options["timeout"] = httpx2.Timeout(_IN_ONE_PIECE_S, connect=_CONNECT_S)
    return await anthropic.post(
        _PATH,
        content=request.body,
        cast_to=object,
        stream=True,  # for the SDK: it hands over the response and reads nothing of it
        stream_cls=AsyncStream[object],
        options=options,
    )


@contextmanager
def _named(response: httpx2.Response) -> Generator[None]:
    """Let what breaks off tell which request it was: support asks for that."""
    try:
        yield
    except (httpx2.TransportError, StreamBroken, UnknownDelta) as error:
        error.add_note(f" (request {response.headers.get('request-id')})")
        raise


async def _reply(response: httpx2.Response, progress: Progress) -> dict[str, Any]:
    fold = MessageFold()
    try:
        async for event in _events(response):
            _take(fold, event, response)
            if not fold.whole:
                progress(fold, event)
    except (httpx2.TransportError, StreamBroken):
        if not fold.whole:  # what comes after the end of a reply takes nothing of it
            raise
    return fold.message


async def _events(response: httpx2.Response) -> AsyncGenerator[dict[str, Any]]:
    """Yield the events of a response; a reply in one piece is told as two."""
    if response.headers.get("content-type", "").partition(";")[0].strip() not in _IN_PIECES:
        await response.aread()
        for event in _in_one_piece(response):
            yield event
        return
    async for sent in AsyncStream.raw_events(response):
        if sent.data:
            try:
                yield json_text.load_object(sent.data)
            except (ValueError, RecursionError) as error:
                raise StreamBroken(f"an event of the stream is not JSON: {error}") from error


def _in_one_piece(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    try:
        body = _parsed(response.text)
    except ValueError as error:
        if "json" in response.headers["content-type"]:
            raise StreamBroken(f"its JSON is broken: {error}") from error
        raise _no_reply(response) from error
    match body:
        case {"type": "error"}:
            yield body
        case {"type": "message", "content": list(), "stop_reason": str()}:
            yield {"type": "message_start", "message": body}
            yield {"type": "message_stop"}
        case {"type": "message"}:
            raise StreamBroken("the message lacks its content or its stop_reason")
        case _:
            raise _no_reply(response)


def _parsed(text: str) -> dict[str, Any]:
    if (depth := json_text.depth(text)) > _DEEPEST:
        raise Unanswerable(f"found a reply nested {depth} deep, expected {_DEEPEST} at most")
    return json_text.load_object(text.removeprefix("\ufeff"))


def _no_reply(response: httpx2.Response) -> Refused:
    kind = response.headers.get("content-type", "")
    told = Refusal(
        response.status_code,
        kind=None,
        words=f"{kind} {response.text}",
        request_id=response.headers.get("request-id"),
        place=_place(response.request.url),
    )
    return Refused(told)


def _take(fold: MessageFold, event: dict[str, Any], response: httpx2.Response) -> None:
    if event.get("type") == "error" and not fold.whole:
        raise Refused(_in_stream(event, response, begun=bool(fold.usage)))
    try:
        fold.add(event)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        text = f"an event of the stream lacks its fields: {str(event)[:80]!r}"
        raise StreamBroken(text) from error


def _in_stream(event: dict[str, Any], response: httpx2.Response, *, begun: bool) -> Refusal:
    told = _object(event.get("error"))
    kind = str(told.get("type"))
    return Refusal(
        STATUS_OF.get(kind, 500),
        kind,
        words=str(told.get("message")),
        request_id=event.get("request_id") or response.headers.get("request-id"),
        place=_place(response.request.url),
        code=str(_object(told.get("details")).get("error_code") or ""),
        in_stream=True,
        begun=begun,
    )


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def posture(error: BaseException) -> Posture | None:
    """Say what an error of `ask` means; None if it is none of the API's or the wire's."""
    match error:
        case APIStatusError():
            return posture_of(_refusal(error))
        case Refused():
            return posture_of(error.told)
        case Unanswerable():
            text = f"Claude's reply cannot be kept without loss: {error}{_notes(error)}"
            return Posture("stop", text)
        case UnknownDelta():
            text = f"Claude's stream cannot be kept without loss: {error}{_notes(error)}"
            text = f"{text}. The next request asks for it in one piece"
            return Posture("unstreamed", text, delay_s=0.0)
        case StreamBroken():
            return Posture("retry", f"Claude's reply did not arrive whole: {error}{_notes(error)}")
        case _:
            return _unwritable(error) or _wire_posture(error)


def _refusal(error: APIStatusError) -> Refusal:
    return Refusal(
        error.status_code,
        kind=error.type,
        words=str(error.api_message or error.message),
        request_id=error.request_id,
        place=_place(error.request.url),
        code=error.error_code or "",
        headers=error.response.headers,
    )


def _unwritable(error: BaseException) -> Posture | None:
    """Say what is wrong with a request that no connection can carry.

    The errors themselves may tell the key, and a failure is read by many.
    """
    cause = error.__cause__ if isinstance(error, APIConnectionError) else error
    match cause:
        case TypeError() if "authentication" in str(cause):
            text = "no key for Claude's API: set ANTHROPIC_API_KEY"
        case httpx2.LocalProtocolError():
            text = "the key is none that a header can carry: check ANTHROPIC_API_KEY"
        case _:
            return None
    return Posture("retry", text, sent=False, misconfigured=True)


def _wire_posture(error: BaseException) -> Posture | None:
    match error:
        case APITimeoutError():
            unsent = (httpx2.ConnectTimeout, httpx2.PoolTimeout)
            sent = not isinstance(error.__cause__, unsent)
            text = f"{_place(error.request.url)} did not answer in time: {error}"
            return Posture("retry", text, sent=sent)
        case APIConnectionError():
            cause = error.__cause__ or error
            sent = not isinstance(cause, httpx2.ConnectError)
            text = f"cannot reach {_place(error.request.url)}: {cause!r}"
            return Posture("retry", text, sent=sent)
        case httpx2.TransportError():
            return Posture("retry", f"the connection to Claude broke: {error!r}{_notes(error)}")
        case _:
            return None


def _notes(error: Exception) -> str:
    return "".join(getattr(error, "__notes__", ()))


def _place(url: httpx2.URL) -> str:
    """Name the API as people are told of it; what may stand before an @ is left out."""
    base = f"{url.scheme}://{url.netloc.decode()}{url.path.removesuffix(_PATH)}"
    return "Claude's API" if base == _OFFICIAL else f"ANTHROPIC_BASE_URL {base!r}"


def account(anthropic: AsyncAnthropic) -> str:
    """Name the account that requests are counted for, in a way that does not tell its key."""
    secret = key(anthropic)
    return hashlib.sha256(f"{anthropic.base_url}|{secret}".encode()).hexdigest()[:16]


def key(anthropic: AsyncAnthropic) -> str:
    """Return the key or token that the client found in its environment; empty: none. A secret."""
    return anthropic.api_key or anthropic.auth_token or ""
