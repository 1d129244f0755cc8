"""The payments service's HTTP side; what it can be asked to do wrong is in `trouble.py`.

    POST /refunds           one refund for each Idempotency-Key
    POST /plain/refunds     a refund for every request
    POST /sealed/refunds    a refund for every request whose Fence is not below the key's seal
    POST /seals             raise the key's seal to Fence; was a refund made with the key?
    GET  /checks/{key}      was a refund made with the key?
    GET  /orders/{id}       an order
    GET  /audit             the books

A refund is refused after its `Valid-Until` (Unix seconds), if it has one.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from onward.testing.payments.books import Answer, Books, Refund, refusal
from onward.testing.payments.trouble import Trouble

_MAX_KEY = 255
_BOOKS = web.AppKey("books", Books)


def application(file: Path) -> web.Application:
    """Build the service over its SQLite file."""
    app = web.Application()
    app[_BOOKS] = Books(file)
    app.router.add_post("/refunds", _endpoint(_keyed_refund))
    app.router.add_post("/plain/refunds", _endpoint(_plain_refund))
    app.router.add_post("/sealed/refunds", _endpoint(_sealed_refund))
    app.router.add_post("/seals", _endpoint(_seal))
    app.router.add_get("/checks/{key}", _endpoint(_check))
    app.router.add_get("/orders/{id}", _order)
    app.router.add_get("/audit", _audit)
    return app


class _Refused(Exception):
    """A request that breaks a rule; carries the answer."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.answer = refusal(400, why)


@dataclass(frozen=True)
class _Asked:
    """A request that has arrived whole."""

    number: int
    headers: "_Headers"
    body: bytes

    def refund(self) -> Refund:
        """Read the body. Raises `_Refused` where it is not a refund."""
        try:
            asked: Any = json.loads(self.body)
            order, amount = asked["order"], asked["amount_cents"]
        except (ValueError, TypeError, KeyError) as error:
            raise _Refused(f"not a JSON object of order, amount_cents: {error!r}") from error
        if not isinstance(order, str) or not order:
            raise _Refused(f"order must be a text, not {order!r}")
        if type(amount) is not int or amount <= 0:
            raise _Refused(f"amount_cents must be an integer > 0, not {amount!r}")
        return Refund(self.number, self.headers.key, order, amount, self.headers.valid_until())


class _Headers:
    """What a request says before its body. What is missing, or rubbish, is None."""

    def __init__(self, request: web.Request) -> None:
        self.key = request.match_info.get("key", request.headers.get("Idempotency-Key"))
        fence = request.headers.get("Fence", "")
        self.fence = int(fence) if fence.isdecimal() else None
        self._valid_until = request.headers.get("Valid-Until")

    def valid_until(self) -> float | None:
        """Return when the request lapses, Unix seconds. Raises `_Refused` for rubbish."""
        try:
            return None if self._valid_until is None else float(self._valid_until)
        except ValueError as error:
            text = f"Valid-Until must be Unix seconds, not {self._valid_until!r}"
            raise _Refused(text) from error

    def needed_key(self) -> str:
        """Return the key. Raises `_Refused` where there is none."""
        if not (self.key and len(self.key) <= _MAX_KEY):
            text = f"Idempotency-Key must have 1 to {_MAX_KEY} characters, not {self.key!r}"
            raise _Refused(text)
        return self.key

    def needed_fence(self) -> int:
        """Return the fence. Raises `_Refused` where there is none."""
        if self.fence is None:
            raise _Refused("Fence must be an integer from 0, and is missing or something else")
        return self.fence


def _keyed_refund(books: Books, asked: _Asked) -> Answer:
    asked.headers.needed_key()
    return books.refund_once(asked.refund())


def _plain_refund(books: Books, asked: _Asked) -> Answer:
    return books.refund(asked.refund())


def _sealed_refund(books: Books, asked: _Asked) -> Answer:
    asked.headers.needed_key()
    return books.refund_unless_sealed(asked.refund(), asked.headers.needed_fence())


def _seal(books: Books, asked: _Asked) -> Answer:
    return books.seal(asked.headers.needed_key(), asked.headers.needed_fence())


def _check(books: Books, asked: _Asked) -> Answer:
    return books.check(asked.headers.needed_key())


def _endpoint(
    act: Callable[[Books, _Asked], Answer],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Record the arrival, then the body, then act, then record what was decided."""

    async def handle(request: web.Request) -> web.StreamResponse:
        books, headers = request.app[_BOOKS], _Headers(request)
        number = books.arrived(request.path, headers.key, headers.fence)
        body = await _received(request, books, number)
        trouble = Trouble.of(request, books.earlier_arrivals(number))
        answer = await _answer(act, books, _Asked(number, headers, body), trouble)
        books.answered(number, answer.status)
        if trouble.drop and request.transport is not None:
            request.transport.abort()
        return web.json_response(text=answer.text, status=answer.status)

    return handle


async def _answer(
    act: Callable[[Books, _Asked], Answer], books: Books, asked: _Asked, trouble: Trouble
) -> Answer:
    await asyncio.sleep(trouble.delay_s)
    try:
        answer = act(books, asked)
    except _Refused as refused:
        return refused.answer
    await asyncio.sleep(trouble.delay_after_s)
    return refusal(trouble.error, "asked for by the request") if trouble.error else answer


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


async def _order(request: web.Request) -> web.Response:
    """Answer with an order made up from its id, always the same."""
    order = request.match_info["id"]
    digest = int.from_bytes(hashlib.sha256(order.encode()).digest()[:4])
    return web.json_response(
        {"order": order, "amount_cents": 10_00 + digest % 200_00, "currency": "EUR", "paid": True}
    )


async def _audit(request: web.Request) -> web.Response:
    return web.json_response(request.app[_BOOKS].audit())
