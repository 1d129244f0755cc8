"""Why the ledger's Redis cannot be used, in plain words."""

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import AuthenticationError
from redis.exceptions import TimeoutError as TimedOut

from onward.invoked import worker
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
    if not place.tls and ("reading from" in text or "closed by server" in text):
        return _NO_TLS
    return f"{_found(error, place)}. {_way()}"


def _found(error: Exception, place: Place) -> str:
    if isinstance(error, TimedOut) and place.tls:
        return "no answer, as of a server that does not expect TLS"
    return str(error).strip(" .") or type(error).__name__


def _way() -> str:
    return f"Set ONWARD_REDIS_URL to your server, or start `{worker('--local')}`, which brings one"
