"""What an exception from a tool with an effect says about the effect.

`rejected`: this request certainly did nothing. `not_sent`: nothing left this process. `unknown`:
the effect may have happened, which is also the answer to everything that is not listed here.

Exceptions of HTTP libraries are known by their library and class name, so that none need be
installed. Only the exception itself is judged, never its `__cause__`: code that catches an error
and raises its own may have made more requests in between, so the cause's 404 says nothing about
the last of them.
"""

import ssl
import urllib.error
from typing import Any, Literal

from onward.errors import NotSent, Rejected

Meaning = Literal["rejected", "not_sent", "unknown"]

REJECTED_STATUS = frozenset({400, 401, 403, 404, 422})
"""HTTP answers that refuse a request without acting on it. Others (408, 409, 429, 5xx) may come
from a proxy, or after the work was done, or for an earlier attempt that is still going on."""

_HTTPX = ("httpx", "httpx2", "httpcore", "httpcore2")

# No connection was there yet, so no byte of the request was written. Not in this list, because
# bytes may have left: ReadTimeout, WriteTimeout, ReadError, WriteError, CloseError,
# RemoteProtocolError, and requests' ConnectionError, which also stands for a reset.
_NOT_SENT = frozenset(
    {
        *(f"{library}.ConnectError" for library in _HTTPX),
        *(f"{library}.ConnectTimeout" for library in _HTTPX),
        *(f"{library}.PoolTimeout" for library in _HTTPX),
        "requests.ConnectTimeout",
        "urllib3.NewConnectionError",
        "urllib3.ConnectTimeoutError",
        "aiohttp.ClientConnectorError",
        "aiohttp.ConnectionTimeoutError",
    }
)

# The request was never made, and never can be: the address is wrong. Trying again would not help,
# so Claude is told.
_IMPOSSIBLE = frozenset(
    {
        *(f"{library}.InvalidURL" for library in _HTTPX),
        *(f"{library}.UnsupportedProtocol" for library in _HTTPX),
        *(f"requests.{name}" for name in ("InvalidURL", "InvalidSchema", "MissingSchema")),
        "aiohttp.InvalidURL",
        "anthropic.ToolError",
    }
)


def meaning(error: BaseException) -> Meaning:
    """Judge an exception that a tool raised; docs/guarantees.md has the table."""
    names = _names(error)
    if (
        isinstance(error, Rejected)
        or names & _IMPOSSIBLE
        or _status(error, names) in REJECTED_STATUS
    ):
        return "rejected"
    if isinstance(error, NotSent | ConnectionRefusedError) or names & _NOT_SENT:
        return "not_sent"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError):
        return _of_reason(error.reason)
    return "unknown"


def _of_reason(reason: OSError) -> Meaning:
    """Judge why urllib could not open a URL: refused, or a certificate that was not accepted."""
    refused = isinstance(reason, ConnectionRefusedError | ssl.SSLCertVerificationError)
    return "not_sent" if refused else "unknown"


def _names(error: BaseException) -> frozenset[str]:
    """List an exception's classes as `library.Class`: `httpx.ConnectError`."""
    return frozenset(
        f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(error).__mro__
    )


def _status(error: BaseException, names: frozenset[str]) -> int | None:
    """Find the HTTP status that an exception reports, if its library is known."""
    if names & {"httpx.HTTPStatusError", "httpx2.HTTPStatusError", "requests.HTTPError"}:
        return _number(getattr(getattr(error, "response", None), "status_code", None))
    if "aiohttp.ClientResponseError" in names and error.__cause__ is None:
        # With a cause it is an answer that aiohttp could not parse, which it reports as "400".
        return _number(getattr(error, "status", None))
    if isinstance(error, urllib.error.HTTPError):
        return _number(error.code)
    return None


def _number(status: Any) -> int | None:
    return status if isinstance(status, int) else None
