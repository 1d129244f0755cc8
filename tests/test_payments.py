"""The payments service: its books are what every exactly-once test and the demo's audit trust."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from onward.testing import Arrival, Effect, PaymentsProcess, payments_service, wait_until


@pytest_asyncio.fixture
async def http(payments: PaymentsProcess) -> AsyncGenerator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(payments.url) as session:
        yield session


@pytest.fixture
def order() -> str:
    return f"order-{uuid4()}"


async def refund(
    http: aiohttp.ClientSession,
    order: str,
    cents: object = 5,
    *,
    path: str = "/refunds",
    **headers: str,
) -> tuple[int, dict[str, Any]]:
    body = {"order": order, "amount_cents": cents}
    async with http.post(path, json=body, headers=headers) as reply:
        return reply.status, await reply.json()


def arrivals(payments: PaymentsProcess, order: str) -> list[Arrival]:
    return [arrival for arrival in payments.requests() if order in arrival.body]


def effects(payments: PaymentsProcess, order: str) -> list[Effect]:
    return [effect for effect in payments.effects() if effect.order == order]


async def keyed(
    http: aiohttp.ClientSession, order: str, key: str, cents: int = 5, query: str = ""
) -> tuple[int, dict[str, Any]]:
    return await refund(http, order, cents, path="/refunds" + query, **{"Idempotency-Key": key})


async def test_the_same_key_acts_once_and_answers_alike(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Keyed: two requests are seen, one refund is made, both answers are the first one."""
    first, second = await keyed(http, order, order), await keyed(http, order, order)
    assert first == second
    assert first[0] == 201
    assert [(arrival.key, arrival.status) for arrival in arrivals(payments, order)] == [
        (order, 201),
        (order, 201),
    ]
    (effect,) = effects(payments, order)
    assert (effect.key, effect.amount_cents) == (order, 5)
    assert effect.request == arrivals(payments, order)[0].n


async def test_the_same_key_at_the_same_time_acts_once(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Keyed: concurrency does not get around the key."""
    asked = [keyed(http, order, order, query="?delay_s=0.1") for _ in range(20)]
    answers = await asyncio.gather(*asked)
    assert all(answer == answers[0] for answer in answers)
    assert len(effects(payments, order)) == 1
    assert len(arrivals(payments, order)) == 20


async def test_the_same_key_with_another_body_is_refused(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Keyed: a key names one request; a client that reuses it has lost count."""
    await keyed(http, order, order, cents=5)
    status, answer = await keyed(http, order, order, cents=6)
    assert status == 422
    assert "another body" in answer["error"]
    assert len(effects(payments, order)) == 1


async def test_the_plain_endpoint_acts_every_time(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Plain: a repeated request is a second refund, so that an audit can fail."""
    for _ in range(2):
        await refund(http, order, path="/plain/refunds", **{"Idempotency-Key": order})
    assert [effect.key for effect in effects(payments, order)] == [order, order]


async def sealed(
    http: aiohttp.ClientSession, order: str, fence: object, **headers: str
) -> tuple[int, dict[str, Any]]:
    """Ask for a refund of an order, with the order's id as its key."""
    asked = {"Idempotency-Key": order, "Fence": str(fence)} | headers
    return await refund(http, order, path="/sealed/refunds", **asked)


async def seal(
    http: aiohttp.ClientSession, key: str, fence: object, query: str = ""
) -> tuple[int, dict[str, Any]]:
    headers = {"Idempotency-Key": key, "Fence": str(fence)}
    async with http.post("/seals" + query, headers=headers) as reply:
        return reply.status, await reply.json()


async def check(http: aiohttp.ClientSession, key: str) -> dict[str, Any]:
    async with http.get(f"/checks/{key}") as reply:
        answer: dict[str, Any] = await reply.json()
        return answer


async def test_a_seal_refuses_lower_fences_and_says_that_nothing_happened(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Sealed: what was sent before the seal and lands after it does nothing, without any clock."""
    assert await seal(http, order, 7) == (200, {"key": order, "fence": 7, "answer": None})
    stale = (409, {"error": "stale fence", "fence": 6, "seal": 7})
    assert await sealed(http, order, 6) == stale
    assert await seal(http, order, 6) == stale
    assert effects(payments, order) == []
    assert (await sealed(http, order, 7))[0] == 201
    assert [(a.fence, a.status) for a in arrivals(payments, order)] == [(6, 409), (7, 201)]


async def test_a_seal_tells_what_happened_before_it(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Sealed: a successor gets the first answer instead of firing."""
    _, made = await sealed(http, order, 1)
    assert (await seal(http, order, 2))[1]["answer"] == made
    assert len(effects(payments, order)) == 1


async def test_a_sealed_endpoint_does_not_deduplicate(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Only the seal protects: a ledger that fires without it is seen in the books."""
    for fence in (1, 2):
        await sealed(http, order, fence)
    assert len(effects(payments, order)) == 2


async def test_a_seal_and_a_request_at_the_same_time_agree(
    payments: PaymentsProcess, http: aiohttp.ClientSession
) -> None:
    """Sealed: a request is seen by the seal or refused by it, never neither."""
    for _ in range(20):
        order = f"order-{uuid4()}"
        (status, _), (_, said) = await asyncio.gather(sealed(http, order, 1), seal(http, order, 2))
        assert (status == 201) == (said["answer"] is not None)
        assert len(effects(payments, order)) == (status == 201)


@pytest.mark.parametrize("fence", ["", "-1", "x", "1.5"])
async def test_a_sealed_request_needs_a_fence(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str, fence: str
) -> None:
    """A tool that forgets its fence must not pass its tests."""
    assert (await sealed(http, order, fence))[0] == 400
    assert (await seal(http, order, fence))[0] == 400
    assert effects(payments, order) == []


async def test_a_check_says_whether_it_happened_and_is_booked(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Timed: the first answer can be found by the key, at an endpoint that does not deduplicate."""
    assert await check(http, order) == {"key": order, "answer": None}
    key = {"Idempotency-Key": order}
    _, made = await refund(http, order, path="/plain/refunds", **key)
    assert await check(http, order) == {"key": order, "answer": made}
    checks = [a for a in payments.requests() if a.endpoint == f"/checks/{order}"]
    assert [(a.key, a.status) for a in checks] == [(order, 200), (order, 200)]


async def test_a_request_past_its_time_does_nothing(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """Timed: nothing lands after the time that its sender gave it, however long it took."""
    late = {"Valid-Until": f"{time.time() + 0.2:.3f}", "Payments-Delay-S": "0.3"}
    assert (await sealed(http, order, 1, **late))[0] == 410
    assert effects(payments, order) == []
    assert (await sealed(http, order, 1, **late | {"Valid-Until": "soon"}))[0] == 400
    in_time = {"Valid-Until": f"{time.time() + 60:.3f}"}
    assert (await sealed(http, order, 1, **in_time))[0] == 201


async def test_a_seal_whose_answer_is_lost_holds(http: aiohttp.ClientSession, order: str) -> None:
    """Trouble is there at every endpoint; a seal that was made and not told is made."""
    with pytest.raises(aiohttp.ClientError):
        await seal(http, order, 2, "?drop=1")
    assert (await sealed(http, order, 1))[0] == 409
    assert (await seal(http, order, 2, "?error=500"))[0] == 500


@pytest.mark.parametrize("cents", [0, -1, 1.5, True, "5", None])
async def test_a_wrong_amount_is_refused_and_recorded(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str, cents: object
) -> None:
    """A refused request is an arrival without an effect."""
    status, answer = await refund(http, order, cents, path="/plain/refunds")
    assert status == 400
    assert repr(cents) in answer["error"]
    assert [arrival.status for arrival in arrivals(payments, order)] == [400]
    assert effects(payments, order) == []


@pytest.mark.parametrize("key", [None, "", "k" * 256])
async def test_a_keyed_request_needs_a_key(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str, key: str | None
) -> None:
    """A tool that forgets the key must not pass its tests."""
    headers = {} if key is None else {"Idempotency-Key": key}
    status, _ = await refund(http, order, **headers)
    assert status == 400
    assert effects(payments, order) == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"order": 1, "amount_cents": 2}'])
async def test_rubbish_is_refused(http: aiohttp.ClientSession, body: bytes) -> None:
    """No body makes the service fail."""
    async with http.post("/plain/refunds", data=body) as reply:
        assert reply.status == 400


async def test_half_a_request_is_in_the_books(payments: PaymentsProcess, order: str) -> None:
    """What a killed sender got out is seen, while it hangs and after it broke; nothing is done."""
    address = urlsplit(payments.url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    head = "POST /plain/refunds HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n"
    writer.write((head + json.dumps({"order": order, "amount_cents": 5})).encode())
    await wait_until(lambda: arrivals(payments, order), 5)
    assert [arrival.state for arrival in arrivals(payments, order)] == ["arrived"]
    writer.close()
    await wait_until(lambda: arrivals(payments, order)[0].state == "broken", 5)
    assert effects(payments, order) == []


async def test_a_request_of_which_only_the_headers_came_is_in_the_books(
    payments: PaymentsProcess, order: str
) -> None:
    """The arrival counts from the headers on."""
    address = urlsplit(payments.url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST /refunds HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nIdempotency-Key: {order}\r\n"
    writer.write(f"{head}\r\n".encode())
    await wait_until(lambda: [a for a in payments.requests() if a.key == order], 5)
    writer.close()


async def test_drop_cuts_the_connection_after_the_effect(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """The hardest case for a client: it was done, and no answer says so. Then the key tells."""
    with pytest.raises(aiohttp.ClientError):
        await keyed(http, order, order, query="?drop=1,0")
    assert len(effects(payments, order)) == 1
    status, _ = await keyed(http, order, order, query="?drop=1,0")
    assert status == 201
    assert len(effects(payments, order)) == 1


async def test_an_error_after_the_effect_hides_it(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """A 500 says nothing about the effect."""
    status, _ = await refund(http, order, path="/plain/refunds", **{"Payments-Error": "500"})
    assert status == 500
    assert len(effects(payments, order)) == 1


async def test_delays_are_before_and_after_the_effect(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """A test can kill a worker while the request is there and the effect is not, or is."""
    before = asyncio.ensure_future(keyed(http, order, order, query="?delay_s=5"))
    await wait_until(lambda: arrivals(payments, order), 5)
    assert effects(payments, order) == []
    before.cancel()
    after = asyncio.ensure_future(keyed(http, order, order + "2", query="?delay_after_s=5"))
    await wait_until(lambda: effects(payments, order), 4)
    assert not after.done()
    after.cancel()


async def test_an_order_is_always_the_same(http: aiohttp.ClientSession, order: str) -> None:
    """Reads can be compared over crashes."""
    answers: list[Any] = []
    for _ in range(2):
        async with http.get(f"/orders/{order}") as reply:
            answers.append(await reply.json())
    assert answers[0] == answers[1]
    assert answers[0]["order"] == order
    assert answers[0]["amount_cents"] > 0


async def test_the_audit_is_both_tables(
    payments: PaymentsProcess, http: aiohttp.ClientSession, order: str
) -> None:
    """The books can be read over HTTP as well, with the same content."""
    await keyed(http, order, order)
    async with http.get("/audit") as reply:
        audit = await reply.json()
    assert [row["n"] for row in audit["requests"]] == [arrival.n for arrival in payments.requests()]
    assert [row["n"] for row in audit["effects"]] == [effect.n for effect in payments.effects()]


@pytest.mark.crash
async def test_the_books_survive_a_kill(tmp_path: Path, order: str) -> None:
    """Keys and effects are remembered by a service that was killed and started again."""
    db = tmp_path / "payments.db"
    async with payments_service(db) as first, aiohttp.ClientSession(first.url) as http:
        answer = await keyed(http, order, order)
        await first.kill()
        assert len(effects(first, order)) == 1
    async with payments_service(db) as second, aiohttp.ClientSession(second.url) as http:
        assert await keyed(http, order, order) == answer
        assert len(effects(second, order)) == 1
