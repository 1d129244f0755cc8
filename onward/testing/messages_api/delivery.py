"""Putting a reply on the wire, or what a fault makes of it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web

from onward.testing.messages_api.journal import Entry
from onward.testing.messages_api.literal_json import Object
from onward.testing.messages_api.refusals import ERROR_TYPES, MESSAGES, error_body, request_id
from onward.testing.messages_api.reply import Reply
from onward.testing.messages_api.script import Fault, Step
from onward.testing.messages_api.stream import encode

_NO_FAULT = Fault.model_construct()
_OK = 200
_EVENTS_BEFORE_ERROR = 3
_STATUS_OF = {kind: status for status, kind in reversed(ERROR_TYPES.items())}
_HTML = "<html><body><h1>502 Bad Gateway</h1></body></html>"
_PING = encode({"type": "ping"})
_UNKNOWN_DELTA = encode(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "unheard_delta", "sound": "…"}}
)
_JSON = "application/json"
_EVENTS = "text/event-stream"


class Delivery:
    """One answer to one request: knows the socket, the journal's entry, the step and its fault."""

    def __init__(
        self,
        request: web.Request,
        entry: Entry,
        step: Step,
        *,
        begin: Callable[[], None],
        remember: Callable[[], None],
        headers: Mapping[str, str],
    ) -> None:
        """`begin` is called as a reply begins, `remember` just before the last byte of a whole one.

        A refusal is no reply.
        """
        self._request, self._entry, self._step, self._own = request, entry, step, headers
        self._fault = step.fault(entry.attempt) or _NO_FAULT
        self._begin, self._remember = begin, remember

    async def send(self, reply: Reply, *, stream: bool) -> web.StreamResponse:
        """Send the reply, or what the fault leaves of it, and record what was sent."""
        await asyncio.sleep(self._step.delay_s + self._fault.hold_s)
        if instead := self._instead(reply):
            return instead
        if reply.status != _OK or (reply.message is None and not stream):
            return self._whole(reply.status, reply.body)
        stream = stream and not self._fault.unstreamed
        chunks = self._pieces(reply) if stream else _halves(reply.body)
        return await self._chunks(chunks, _EVENTS if stream else _JSON, stream=stream)

    def _pieces(self, reply: Reply) -> Sequence[bytes]:
        if not self._fault.unknown_delta:
            return reply.chunks
        at = reply.chunks.index(_PING) + 1  # the first block is open there
        return (*reply.chunks[:at], _UNKNOWN_DELTA, *reply.chunks[at:])

    def _instead(self, reply: Reply) -> web.Response | None:
        """Return the answer of a fault that replaces the reply."""
        fault = self._fault
        if fault.status:
            return self._refusal(fault.status)
        if fault.broken_json:
            return self._whole(_OK, reply.body[: len(reply.body) // 2], "broken JSON")
        if fault.text_plain:
            return self._whole(_OK, b"Please sign in.", "plain text", "text/plain")
        if fault.other_shape:
            return self._whole(_OK, b'{"ok":true}', "another shape")
        return None

    def _refusal(self, status: int) -> web.Response:
        fault, kind = self._fault, ERROR_TYPES.get(status, "api_error")
        headers = dict(fault.headers)
        if fault.retry_after is not None:
            headers["retry-after"] = f"{fault.retry_after:g}"
        if fault.html:
            return self._whole(status, _HTML.encode(), "HTML", "text/html", headers)
        error: Object = {"type": kind, "message": MESSAGES.get(status, kind)}
        if fault.error:
            error = fault.error.model_dump(exclude_none=True)
        text = error_body(error, self._entry.body_sha256)
        return self._whole(status, text.encode(), f"{error['type']}", _JSON, headers)

    def _whole(
        self,
        status: int,
        body: bytes,
        what: str = "recorded reply",
        content_type: str = _JSON,
        headers: dict[str, str] | None = None,
    ) -> web.Response:
        self._entry.status, self._entry.outcome = status, f"{status} {what}"
        return web.Response(
            status=status,
            body=body,
            content_type=content_type,
            headers={
                "request-id": request_id(self._entry.body_sha256),
                **self._own,
                **(headers or {}),
            },
        )

    async def _chunks(
        self, chunks: Sequence[bytes], content_type: str, *, stream: bool
    ) -> web.StreamResponse:
        fault, entry = self._fault, self._entry
        response = web.StreamResponse(headers=self._headers(content_type))
        breaks = bool(fault.stream_error or fault.end_without_stop or fault.cut)
        last = self._breaking_point(len(chunks)) if breaks or fault.stall_s else len(chunks)
        if fault.cut and last == 0:
            return self._cut(response, "cut before any byte")
        entry.status = _OK
        self._begin()
        await response.prepare(self._request)
        for index, chunk in enumerate(chunks):
            if index == last:
                if breaks:
                    return await self._break(response, stream=stream)
                await asyncio.sleep(fault.stall_s)
            if index == len(chunks) - 1:
                self._remember()  # a client may ask the next step before this write returns
            await asyncio.sleep(self._step.chunk_delay_s)
            await response.write(chunk)
            entry.events_sent += stream
        entry.complete, entry.outcome = True, f"200 {entry.message_id or 'recorded'}"
        await response.write_eof()
        return response

    def _breaking_point(self, length: int) -> int:
        """Return how many chunks go out before the fault strikes; never all of them."""
        usual = _EVENTS_BEFORE_ERROR if self._fault.stream_error else length - 1
        after = usual if self._fault.after_events is None else self._fault.after_events
        return min(after, length - 1)

    async def _break(self, response: web.StreamResponse, *, stream: bool) -> web.StreamResponse:
        entry, fault = self._entry, self._fault
        if fault.cut:
            return self._cut(response, "200, then the connection was cut")
        if fault.stream_error and stream:
            error = {"type": fault.stream_error, "message": self._words(fault.stream_error)}
            await response.write(encode({"type": "error", "error": error}))
        await response.write_eof()
        what = f"an error event {fault.stream_error}" if fault.stream_error else "a clean end"
        entry.outcome = f"200, then {what}"
        return response

    def _cut(self, response: web.StreamResponse, outcome: str) -> web.StreamResponse:
        self._entry.outcome = outcome
        if transport := self._request.transport:
            transport.abort()
        return response

    @staticmethod
    def _words(kind: str) -> str:
        return MESSAGES.get(_STATUS_OF.get(kind, 0), kind)

    def _headers(self, content_type: str) -> dict[str, str]:
        return {
            "content-type": f"{content_type}; charset=utf-8",
            "cache-control": "no-cache",
            "request-id": request_id(self._entry.body_sha256),
            **self._own,
        }


def _halves(body: bytes) -> tuple[bytes, bytes]:
    """Return a body in two, so that what breaks a stream breaks it too."""
    return body[: len(body) // 2], body[len(body) // 2 :]
