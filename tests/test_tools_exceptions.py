"""What an exception from a tool means: one row of the architecture's table after the other.

The HTTP ones are raised by a real client against real sockets, so that the classification holds
for what the library does and not for what we think it does.
"""

import asyncio
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import httpx2
import pytest

from onward import NotSent, Rejected
from onward.tools import meaning

REFUSED = [400, 401, 403, 404, 422]
UNCLEAR = [302, 402, 405, 408, 409, 410, 425, 429, 500, 502, 503, 504]


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@asynccontextmanager
async def server(answer: bytes | None, *, hang: bool = False) -> AsyncGenerator[str]:
    """Serve one raw answer to whatever is asked; None: close without one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if hang:
            await reader.read()
        if answer is not None:
            writer.write(answer)
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"


def http(status: int) -> bytes:
    """Return a whole HTTP answer."""
    return b"HTTP/1.1 %d Whatever\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status


async def post(url: str) -> None:
    """Send a request as a tool would."""
    async with httpx2.AsyncClient(timeout=0.3) as client:
        (await client.post(url, content=b"body")).raise_for_status()


async def raised_by(url: str) -> BaseException:
    """Return what `post` raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  (which one it is is the question)
        await post(url)
    return caught.value


@pytest.mark.parametrize("status", REFUSED)
async def test_http_refusal_did_nothing(status: int) -> None:
    """400, 401, 403, 404, 422: the request certainly had no effect."""
    async with server(http(status)) as url:
        assert meaning(await raised_by(url)) == "rejected"


@pytest.mark.parametrize("status", UNCLEAR)
async def test_other_http_status_is_unknown(status: int) -> None:
    """Any other answer leaves open whether something was done."""
    async with server(http(status)) as url:
        assert meaning(await raised_by(url)) == "unknown"


async def test_refused_connection_was_not_sent() -> None:
    """Nothing left the process where nobody listens."""
    error = await raised_by(f"http://127.0.0.1:{free_port()}/")
    assert type(error).__name__ == "ConnectError"
    assert meaning(error) == "not_sent"


async def test_name_that_does_not_resolve_was_not_sent() -> None:
    """Nothing left the process where there is no such host."""
    assert meaning(await raised_by("http://nowhere.invalid/")) == "not_sent"


async def test_failed_tls_handshake_was_not_sent() -> None:
    """The request itself is written only after the handshake."""
    async with server(http(200)) as url:
        assert meaning(await raised_by(url.replace("http:", "https:"))) in {"not_sent", "unknown"}


async def test_read_timeout_is_unknown() -> None:
    """The other side has the request, and may be carrying it out."""
    async with server(None, hang=True) as url:
        error = await raised_by(url)
        assert type(error).__name__ == "ReadTimeout"
        assert meaning(error) == "unknown"


async def test_connection_closed_without_an_answer_is_unknown() -> None:
    """The other side had the request and said nothing."""
    async with server(None) as url:
        assert meaning(await raised_by(url)) == "unknown"


async def test_garbled_answer_is_unknown() -> None:
    """An answer that is no HTTP says nothing about the effect."""
    async with server(b"garbage\r\n\r\n") as url:
        assert meaning(await raised_by(url)) == "unknown"


@pytest.mark.parametrize("url", ["ftp://host/", "http://host:port/", "//host"])
async def test_impossible_address_is_told_to_claude(url: str) -> None:
    """No request was made and none can be: certain, and no use to try again."""
    assert meaning(await raised_by(url)) == "rejected"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Rejected("no"), "rejected"),
        (NotSent("away"), "not_sent"),
        (ConnectionRefusedError(), "not_sent"),
        (ConnectionResetError(), "unknown"),
        (ConnectionError(), "unknown"),
        (BrokenPipeError(), "unknown"),
        (TimeoutError(), "unknown"),
        (ValueError("x"), "unknown"),
        (KeyboardInterrupt(), "unknown"),
        (ExceptionGroup("g", [Rejected("no")]), "unknown"),
        (httpx2.ConnectTimeout("t"), "not_sent"),
        (httpx2.PoolTimeout("t"), "not_sent"),
        (httpx2.WriteTimeout("t"), "unknown"),
        (httpx2.ReadError("t"), "unknown"),
        (httpx2.WriteError("t"), "unknown"),
        (httpx2.CloseError("t"), "unknown"),
        (httpx2.RemoteProtocolError("t"), "unknown"),
        (httpx2.LocalProtocolError("t"), "unknown"),
        (httpx2.ProxyError("t"), "unknown"),
        (httpx2.TooManyRedirects("t"), "unknown"),
        (urllib.error.URLError(ConnectionRefusedError()), "not_sent"),
        (urllib.error.URLError(ConnectionResetError()), "unknown"),
        (urllib.error.URLError("unknown url type"), "unknown"),
        (urllib.error.URLError(ssl.SSLCertVerificationError()), "not_sent"),
    ],
)
def test_each_row_of_the_table(error: BaseException, expected: str) -> None:
    """An exception means unknown unless it says otherwise."""
    assert meaning(error) == expected


def like(module: str, name: str, **attributes: object) -> BaseException:
    """Make an exception as a library that is not installed here would raise it."""
    error: BaseException = type(name, (Exception,), {"__module__": module})()
    for attribute, value in attributes.items():
        setattr(error, attribute, value)
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (like("httpx", "ConnectError"), "not_sent"),
        (like("httpx", "HTTPStatusError", response=SimpleNamespace(status_code=404)), "rejected"),
        (like("httpx", "HTTPStatusError", response=SimpleNamespace(status_code=500)), "unknown"),
        (like("httpx", "HTTPStatusError"), "unknown"),
        (like("httpx", "ReadTimeout"), "unknown"),
        (like("requests.exceptions", "ConnectTimeout"), "not_sent"),
        (like("requests.exceptions", "ConnectionError"), "unknown"),
        (
            like("requests.exceptions", "HTTPError", response=SimpleNamespace(status_code=422)),
            "rejected",
        ),
        (like("myapp.httpx", "ConnectError"), "unknown"),
        (like("myapp", "HTTPStatusError", response=SimpleNamespace(status_code=404)), "unknown"),
    ],
)
def test_libraries_are_known_by_name(error: BaseException, expected: str) -> None:
    """Both httpx and requests are understood without being installed; namesakes are not."""
    assert meaning(error) == expected


def test_subclass_of_a_known_exception_means_the_same() -> None:
    """A client library that derives its errors is understood too."""

    class Away(httpx2.ConnectError): ...

    class No(Rejected): ...

    assert meaning(Away("x")) == "not_sent"
    assert meaning(No("x")) == "rejected"


def test_cause_is_not_looked_through() -> None:
    """Whoever caught an error and raised another may have done more in between."""
    error = ValueError("second request failed")
    error.__cause__ = Rejected("first request")
    assert meaning(error) == "unknown"


def test_tool_error_of_the_sdk_is_a_rejection() -> None:
    """A tool written for the SDK's runner says with ToolError what Rejected says."""
    from anthropic.lib.tools import ToolError  # noqa: PLC0415  (costs a second)

    assert meaning(ToolError("no")) == "rejected"


async def aiohttp_raises(url: str) -> BaseException:
    """Return what aiohttp raises, asked the same way."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(1)) as session:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            async with session.post(url, data=b"body", raise_for_status=True):
                pass
    return caught.value


@pytest.mark.parametrize(("status", "expected"), [(404, "rejected"), (500, "unknown")])
async def test_aiohttp_status_is_understood(status: int, expected: str) -> None:
    """The same table for aiohttp."""
    async with server(http(status)) as url:
        assert meaning(await aiohttp_raises(url)) == expected


async def test_aiohttp_garbled_answer_is_unknown() -> None:
    """`aiohttp` reports an answer that it cannot parse as status 400; the effect may be done."""
    async with server(b"garbage\r\n\r\n") as url:
        assert meaning(await aiohttp_raises(url)) == "unknown"


async def test_aiohttp_refused_connection_was_not_sent() -> None:
    """Nothing left the process where nobody listens."""
    assert meaning(await aiohttp_raises(f"http://127.0.0.1:{free_port()}/")) == "not_sent"


@pytest.mark.parametrize(("status", "expected"), [(403, "rejected"), (503, "unknown")])
async def test_urllib_status_is_understood(status: int, expected: str) -> None:
    """The same table for the standard library."""

    def ask(url: str) -> Callable[[], object]:
        return lambda: urllib.request.urlopen(url, data=b"body", timeout=2)  # noqa: S310

    async with server(http(status)) as url:
        with pytest.raises(urllib.error.HTTPError) as caught:
            await asyncio.to_thread(ask(url))
        assert meaning(caught.value) == expected
        caught.value.close()
