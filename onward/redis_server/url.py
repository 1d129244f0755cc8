"""What `ONWARD_REDIS_URL` may say: one server, or the primary that Sentinels know by a name.

    redis://user:password@host:6379/0
    rediss://user:password@host:6379/0?ssl_ca_certs=/etc/onward/ca.pem
    redis+sentinel://user:password@host:26379,host:26379/name/0?sentinel_password=…

`rediss` is TLS, `rediss+sentinel` TLS to the Sentinels too. Options are those of redis-py.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import connection

from onward.errors import UsageError

SENTINEL = "+sentinel"
_SENTINEL_PORT = 26379
_FORMS = (
    "redis://user:password@host:6379/0 (rediss:// with TLS), or "
    "redis+sentinel://user:password@host:26379,host:26379/name/0. Write %23 for #, %2F for / and "
    "so on in a password"
)
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


@dataclass(frozen=True)
class Place:
    """Where the ledger's Redis is."""

    options: Mapping[str, Any]
    """What redis-py's connections take; holds secrets."""
    tls: bool
    sentinels: tuple[tuple[str, int], ...] = ()
    """Host and port of each; none: `options` name the server."""
    service: str = ""
    """The name by which the Sentinels know the primary."""
    sentinel_login: tuple[str | None, str | None] = (None, None)
    """User and password of the Sentinels, which have logins of their own."""


def parse(url: str) -> Place:
    """Read a URL. Raises `UsageError`, without the password, for what is none."""
    try:
        scheme = urlsplit(url).scheme
        place = _by_sentinels(url) if scheme.endswith(SENTINEL) else _one_server(url)
    except ValueError as error:  # its text may hold the beginning of a password
        raise UsageError(f"ONWARD_REDIS_URL is {shown(url)!r}. Expected {_FORMS}") from error
    for option in _FILES:
        name = place.options.get(option)
        if name and not Path(name).is_file():
            raise UsageError(
                f"ONWARD_REDIS_URL has {option}={name}, which is no file. Correct it; a path "
                "begins where the command was started"
            )
    return place


def shown(url: str) -> str:
    """Leave the passwords out of an address that is shown."""
    # Up to the last @: a password that is not percent-encoded may hold any character.
    without = re.sub(r"(?<=://)([^:@/]*):.*@", r"\1:…@", url, flags=re.DOTALL)
    return re.sub(r"(?<=password=)[^&]*", "…", without)


def _one_server(url: str) -> Place:
    parts = urlsplit(url)
    path = parts.path.strip("/")
    if path and not path.isdigit() and parts.scheme != "unix":
        raise ValueError(path)  # redis-py takes it for database 0
    options: dict[str, Any] = {**connection.parse_url(url)}
    return Place(options, tls=parts.scheme == "rediss")


def _by_sentinels(url: str) -> Place:
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError(url)
    sentinels = tuple(map(_host_and_port, hosts.split(",")))
    scheme = parts.scheme.removesuffix(SENTINEL)
    one = _one_server(urlunsplit((scheme, f"{login}{at}any", database, parts.query, "")))
    options = {**one.options}
    del options["host"]
    user, password = options.pop("sentinel_username", None), options.pop("sentinel_password", None)
    return Place(options, one.tls, sentinels, service, (user, password))


def _host_and_port(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(text)
    return parts.hostname, parts.port or _SENTINEL_PORT
