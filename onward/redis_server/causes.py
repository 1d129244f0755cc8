"""Why the ledger's Redis cannot be used, in plain words."""

from collections.abc import Mapping

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import TimeoutError as TimedOut

from onward.invoked import typed, worker
from onward.redis_server.url import Place, parse

_WHERE = "in ONWARD_REDIS_URL"
_OTHER_CERTIFICATE = (
    "it wants a client certificate, or another one. Set ssl_certfile and ssl_keyfile "
    f"{_WHERE} to one that it accepts"
)
_BAD_FILES = (
    "nothing was sent, for a certificate or its key is not in PEM form, or they do not belong "
    f"together. Correct the files of ssl_… {_WHERE}"
)
_TLS = {
    "mismatch, certificate is not valid": (
        "its certificate is not for this name. Put a host that it names "
        f"{_WHERE}, or give it a certificate for this one"
    ),
    "certificate has expired": "its certificate has expired. Renew it, or set this machine's clock",
    "not yet valid": "its certificate is not valid yet. Set this machine's clock",
    "CERTIFICATE_VERIFY_FAILED": (
        "its certificate is signed by nobody who is trusted here. Name the file with the "
        f"certificate of its CA in ssl_ca_certs {_WHERE}"
    ),
    "ALERT": _OTHER_CERTIFICATE,
    # What it says can be lost on the way, when it ends the connection right after.
    "reset by peer": f"it ended the connection; perhaps {_OTHER_CERTIFICATE}",
    "closed by server": f"it ended the connection; perhaps {_OTHER_CERTIFICATE}",
    "KEY_VALUES_MISMATCH": _BAD_FILES,
    "PEM lib": _BAD_FILES,
    "NO_CERTIFICATE": _BAD_FILES,
}
_NO_TLS = (
    "it ended the connection at once, as a server does that expects TLS. Write rediss:// "
    f"{_WHERE}, and ssl_ca_certs if the certificate is of a CA of your own"
)

_TODO: Mapping[type[Exception], str] = {
    TimedOut: f"See whether it is stopped or busy, or correct its address {_WHERE}",
    BusyLoadingError: "Wait until it has read its data",
    OutOfMemoryError: "Raise its maxmemory",
    ReadOnlyError: f"Name its primary {_WHERE}",
    ResponseError: f"Look at its settings and its log, or name another one {_WHERE}",
}
"""The last one is the base of those before it."""


def cause(error: Exception, url: str) -> str:
    """Say why, and what to do about it."""
    place, text = parse(url), str(error)
    if isinstance(error, AuthenticationError):
        found = text.strip(" .")
        return f"it does not let us in ({found}). Correct user and password {_WHERE}"
    said = next((said for sign, said in _TLS.items() if place.tls and sign in text), None)
    if said:
        return said
    if isinstance(error, MasterNotFoundError):
        return f"{text}. Correct what is said of the Sentinels {_WHERE}"
    ended = "reading from" in text or "closed by server" in text
    # A server that is only silent says "reading from" too, and would be sent TLS in vain.
    if ended and not place.tls and not isinstance(error, TimedOut):
        return _NO_TLS
    return f"{_found(error, place)}. {_todo(error)}"


def answers(error: Exception) -> bool:
    """Say whether a server is there, and refuses."""
    return isinstance(error, ResponseError | BusyLoadingError)


def _found(error: Exception, place: Place) -> str:
    text = str(error).strip(" .") or type(error).__name__
    match error:
        case TimedOut() if place.tls:
            return "no answer, as of a server that does not expect TLS"
        case TimedOut():
            return f"no answer in time ({text})"
        case InvalidResponse():
            return "something answers there, but it is not Redis"
        case ResponseError() if place.sentinels and "'SENTINEL'" in text:
            return "what is named as a Sentinel is a Redis server"
        case _:
            return text


def _todo(error: Exception) -> str:
    if isinstance(error, NoPermissionError):
        return f"`{typed('doctor')}` says what to grant"
    known = next((todo for kind, todo in _TODO.items() if isinstance(error, kind)), "")
    way = f"start `{worker('--local')}`, which brings one"
    return known or f"Set ONWARD_REDIS_URL to your server, or {way}"
