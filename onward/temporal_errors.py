"""Why there is no connection to Temporal, in plain words.

The client's errors nest those of three libraries; what a person needs is a word somewhere in them.
"""

import re
from dataclasses import dataclass

CA, NAME = "TEMPORAL_TLS_SERVER_CA_CERT_PATH", "TEMPORAL_TLS_SERVER_NAME"
CERTIFICATE, KEY = "TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH"


@dataclass(frozen=True)
class Cause:
    """What was found, and what to do about it."""

    found: str
    todo: str = ""
    """Empty: look at the address first."""


_REFUSED = Cause(
    "the API key or certificate was not accepted",
    "Set TEMPORAL_API_KEY, or a client certificate, to one that may use this namespace",
)
_BAD_PAIR = f"Correct {CERTIFICATE} and {KEY}"
_NO_PEM = Cause(
    "nothing was sent, for the client's certificate or its key is not in PEM form", _BAD_PAIR
)
_NO_ADDRESS = Cause(
    "that is no address of the form host:port",
    "Correct TEMPORAL_ADDRESS: no https:// and no spaces; TLS is TEMPORAL_TLS=true",
)
_ALWAYS = {
    "HttpsUriWithoutTlsSupport": _NO_ADDRESS,
    "InvalidUri": _NO_ADDRESS,
    "invalid target URL": _NO_ADDRESS,
    "ConnectionRefused": Cause("connection refused"),
    "dns error": Cause("no such host"),
    "Unimplemented": Cause("something answers there, but it is not Temporal"),
    "Unauthenticated": _REFUSED,
    "PermissionDenied": _REFUSED,
    "UnknownIssuer": Cause(
        "its certificate is signed by nobody who is trusted here",
        f"Name the file with the certificate of its CA in {CA}",
    ),
    "(Expired": Cause("its certificate has expired", "Renew it, or set this machine's clock"),
    "NotValidYet": Cause("its certificate is not valid yet", "Set this machine's clock"),
    "InvalidContentType": Cause(
        "it does not speak TLS, which the settings ask for (an API key does too)",
        "Correct TEMPORAL_ADDRESS, or set TEMPORAL_TLS=false",
    ),
    "H2NotNegotiated": Cause("something speaks TLS there, but it is not Temporal"),
    "KeyMismatch": Cause(
        "nothing was sent, for the client's key is not that of its certificate", _BAD_PAIR
    ),
    "NoCertificatesPresented": _NO_PEM,
    "PrivateKeyParseError": _NO_PEM,
    "Must have both": Cause(
        "nothing was sent, for half of it is missing", f"Set {CERTIFICATE} and {KEY}"
    ),
}
_ENDED = ("transport error", "connection closed", "FRAME_SIZE_ERROR", "handshake eof", "Alert")
_ENDED_WITH_TLS = Cause(
    "it ended the connection when it had seen our side of TLS, as a server does that wants a "
    "client certificate, or another one",
    f"Set {CERTIFICATE} and {KEY} to a certificate that it accepts",
)
_ENDED_WITHOUT_TLS = Cause(
    "it ended the connection at once, as a server does that expects TLS",
    f"Set TEMPORAL_TLS=true (and {CA}, if the certificate is of a CA of your own), or correct "
    "TEMPORAL_ADDRESS, if that is no port of Temporal's",
)


def cause(error: Exception, *, tls: bool) -> Cause:
    """Say why there is no connection; `tls`: it was to be one with TLS."""
    if isinstance(error, TimeoutError):
        return Cause("no answer in 3 s")
    text = str(error)
    if "NotValidForName" in text:
        return _other_name(text)
    for sign, known in _ALWAYS.items():
        if sign in text:
            return known
    if any(sign in text for sign in _ENDED):
        return _ENDED_WITH_TLS if tls else _ENDED_WITHOUT_TLS
    return Cause(_status(text) or text[:300])


def _other_name(text: str) -> Cause:
    names = re.findall(r'(?:DnsName|IpAddress)\(\\*"?(.+?)\\*"?\)', text.partition("presented")[2])
    of = f" (it has {', '.join(map(repr, names))})" if names else ""
    return Cause(
        f"its certificate is not for this name{of}",
        f"Correct TEMPORAL_ADDRESS, or set {NAME} to a name that it has",
    )


def _status(text: str) -> str:
    """Read what the server answered."""
    found = re.search(r'code: (?P<code>\w+), message: "(?P<message>[^"]*)"', text)
    return f"it answers {found['code']}, {found['message']!r}" if found else ""
