"""The payments service's HTTP side.

A request can ask for trouble, by query or by header (`delay_s=2`, `Payments-Delay-S: 2`):

    delay_s         wait before the refund is made
    delay_after_s   wait after it was made, before the answer
    drop            1: made, and the connection is cut without an answer
    error           status of an answer that hides that it was made, e.g. 500

A value may be a list, `drop=1,0`: its k-th entry is for the k-th arrival of the same request, and
the last one for all after it.
"""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from onward.testing.payments.books import Answer, Books, refusal

_MAX_KEY = 255
_BOOKS = web.AppKey("books", Books)


def application(file: Path) -> web.Application:
    """Build the service over its SQLite file."""
    app = web.Application()
    app[_BOOKS] = Books(file)
    app.router.add_post("/refunds", _keyed_refund)
    app.router.add_post("/plain/refunds", _plain_refund)
    app.router.add_get("/orders/{id}", _order)
    app.router.add_get("/audit", _audit)
    return app


async def _keyed_refund(request: web.Request) -> web.StreamResponse:
    return await _answered(request, keyed=True)


async def _plain_refund(request: web.Request) -> web.StreamResponse:
    return await _answered(request, keyed=False)


async def _answered(request: web.Request, *, keyed: bool) -> web.StreamResponse:
    """Record the arrival, then the body, then make the refund, then what was decided."""
    books = request.app[_BOOKS]
    number = books.arrived(request.path, request.headers.get("Idempotency-Key"))
    body = await _received(request, books, number)
    trouble = _Trouble(request, books.earlier_arrivals(number))
    answer = await _refund(request, number, body, trouble, keyed=keyed)
    books.answered(number, answer.status)
    if trouble.number("drop") and request.transport is not None:
        request.transport.abort()
    return web.json_response(text=answer.text, status=answer.status)


async def _refund(
    request: web.Request, number: int, body: bytes, trouble: "_Trouble", *, keyed: bool
) -> Answer:
    key = request.headers.get("Idempotency-Key")
    if keyed and not (key and len(key) <= _MAX_KEY):
        return refusal(400, f"Idempotency-Key must have 1 to {_MAX_KEY} characters, not {key!r}")
    asked = _read(body)
    if isinstance(asked, Answer):
        return asked
    await asyncio.sleep(trouble.number("delay_s"))
    answer = request.app[_BOOKS].refund(number, key, *asked, once=keyed)
    await asyncio.sleep(trouble.number("delay_after_s"))
    status = int(trouble.number("error"))
    return refusal(status, "asked for by the request") if status else answer


async def _received(request: web.Request, books: Books, number: int) -> bytes:
    """Read the body, recording each piece as it comes: its sender may die at any moment."""
    body = b""
    try:
        async for piece in request.content.iter_any():
            body += piece
            books.received(number, body, "arrived")
    except ConnectionError as error:
        books.received(number, body, "broken")
        raise web.HTTPBadRequest from error
    books.received(number, body, "whole")
    return body


def _read(body: bytes) -> tuple[str, int] | Answer:
    """Return order and amount, or why the body is not a refund."""
    try:
        asked: Any = json.loads(body)
        order, amount = asked["order"], asked["amount_cents"]
    except (ValueError, TypeError, KeyError) as error:
        return refusal(400, f"not a JSON object of order, amount_cents: {error!r}")
    if not isinstance(order, str) or not order:
        return refusal(400, f"order must be a text, not {order!r}")
    if type(amount) is not int or amount <= 0:
        return refusal(400, f"amount_cents must be an integer > 0, not {amount!r}")
    return order, amount


class _Trouble:
    """What this request asks for, for its place among the arrivals of the same request."""

    def __init__(self, request: web.Request, earlier: int) -> None:
        self._request = request
        self._earlier = earlier

    def number(self, name: str) -> float:
        header = "Payments-" + name.replace("_", "-")
        text = self._request.query.get(name, self._request.headers.get(header, "0"))
        values = text.split(",")
        return float(values[min(self._earlier, len(values) - 1)])


async def _order(request: web.Request) -> web.Response:
    """Answer with an order made up from its id, always the same."""
    order = request.match_info["id"]
    digest = int.from_bytes(hashlib.sha256(order.encode()).digest()[:4])
    return web.json_response(
        {"order": order, "amount_cents": 10_00 + digest % 200_00, "currency": "EUR", "paid": True}
    )


async def _audit(request: web.Request) -> web.Response:
    return web.json_response(request.app[_BOOKS].audit())
