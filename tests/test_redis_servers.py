"""The ledger's Redis behind TLS, and behind Sentinel: reached, or one sentence why not."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
import trustme
from certificates import write_certificates, write_pair
from redis_tls import TlsRedis, tls_redis

from onward.errors import ConnectError, UsageError
from onward.redis_connection import loaded, redis_client, redis_errors, shown

pytestmark = pytest.mark.timeout(60)

MINE = "ssl_certfile={f}/client.pem&ssl_keyfile={f}/client.key"


async def _refusal(url: str) -> str:
    """Try to reach it; returns what a person is told."""
    with pytest.raises((ConnectError, UsageError)) as caught:
        async with redis_client(url) as redis, redis_errors(url):
            await loaded(redis, pytest.fail)
    return str(caught.value)


# ---- what stands in the URL


@pytest.mark.parametrize(
    "url",
    [
        "redis://:SECRET@h:1/0",
        "rediss://user:SECRET@h:1/0?ssl_password=SECRET&ssl_ca_certs=/ca.pem",
        "redis+sentinel://user:SECRET@h:1,i:2/name/0?sentinel_password=SECRET",
        "redis://h:1/0?password=SECRET",
        "redis://:SECRET/with@all?sorts#SECRET@h:1/0",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    """A log holds the address and no secret, wherever and however that is written."""
    assert "SECRET" not in shown(url)
    assert "h:1" in shown(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://h", "Expected redis://user:password@host"),
        ("redis+cluster://h:1", "Expected redis://user:password@host"),
        ("redis://:SECRET/x@h:1", "Write %23 for #"),
        ("redis://h:1/name", "Expected redis://user:password@host:6379/0"),
        ("redis+sentinel://h:1,i:2", "redis+sentinel://user:password@host:26379"),
        ("redis+sentinel://h:1,,i:2/name", "redis+sentinel://user:password@host:26379"),
        ("redis://h:1/0?timout=1", "unexpected keyword argument 'timout'. Options, after the ?"),
        ("redis://h:1/0?ssl_ca_certs=/etc/hostname", "ssl_… needs rediss://"),
        ("rediss://h:1/0?ssl_cert_reqs=some", "Requirements Flag: some. Options, after the ?"),
        ("rediss://h:1/0?ssl_ca_certs=/nowhere.pem", "ssl_ca_certs=/nowhere.pem, which is no file"),
    ],
)
async def test_a_url_that_cannot_be_is_refused(url: str, said: str) -> None:
    """What is wrong is said before anything is connected; nothing of a password is."""
    told = await _refusal(url)
    assert said in told
    assert "SECRET" not in told


# ---- TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out the certificates of two servers and their clients."""
    ca = trustme.CA()
    folder = write_certificates(tmp_path_factory.mktemp("certificates"), ca)
    write_pair(folder, "here", ca.issue_cert("127.0.0.1"))
    write_pair(folder, "elsewhere", ca.issue_cert("redis.example.com"))
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def servers(files: Path) -> AsyncGenerator[dict[str, TlsRedis]]:
    """Run one server of each kind."""
    async with (
        tls_redis(files, "here") as tls,
        tls_redis(files, "here", clients=True) as mutual,
        tls_redis(files, "elsewhere") as misnamed,
    ):
        yield {"tls": tls, "mutual": mutual, "misnamed": misnamed}


@pytest.mark.parametrize(
    ("server", "options"),
    [
        ("tls", "ssl_ca_certs={f}/ca.pem"),
        ("mutual", f"ssl_ca_certs={{f}}/ca.pem&{MINE}"),
        ("misnamed", "ssl_ca_certs={f}/ca.pem&ssl_check_hostname=false"),
    ],
)
async def test_a_redis_with_tls_is_used(
    servers: dict[str, TlsRedis], files: Path, server: str, options: str
) -> None:
    """A CA of one's own and a client certificate are options of the URL."""
    url = f"{servers[server].tls_url}?{options.format(f=files)}"
    async with redis_client(url) as redis, redis_errors(url):
        await loaded(redis, pytest.fail)


@pytest.mark.parametrize(
    ("server", "options", "said"),
    [
        ("tls", "", "nobody who is trusted here. Name the file with the certificate of its CA in"),
        ("tls", "ssl_ca_certs={f}/other-ca.pem", "nobody who is trusted here"),
        ("tls", "ssl_ca_certs={f}/empty.pem", "not in PEM form"),
        ("misnamed", "ssl_ca_certs={f}/ca.pem", "certificate is not for this name. Put a host"),
        ("mutual", "ssl_ca_certs={f}/ca.pem", "wants a client certificate, or another one. Set"),
        (
            "mutual",
            "ssl_ca_certs={f}/ca.pem&ssl_certfile={f}/other-client.pem&ssl_keyfile={f}/other-client.key",
            "wants a client certificate, or another one. Set ssl_certfile and ssl_keyfile",
        ),
        (
            "mutual",
            "ssl_ca_certs={f}/ca.pem&ssl_certfile={f}/client.pem&ssl_keyfile={f}/other-client.key",
            "do not belong together",
        ),
    ],
)
async def test_what_is_wrong_with_tls_is_said_in_one_sentence(
    servers: dict[str, TlsRedis], files: Path, server: str, options: str, said: str
) -> None:
    """It names the option to correct; no library's words."""
    told = await _refusal(f"{servers[server].tls_url}?{options.format(f=files)}")
    assert said in told
    assert "_ssl.c" not in told


async def test_tls_on_one_side_alone_is_told(servers: dict[str, TlsRedis]) -> None:
    """A client without TLS at a server with it, and the other way about."""
    tls = servers["tls"]
    assert "Write rediss://" in await _refusal(tls.tls_url.replace("rediss", "redis"))
    quickly = f"{tls.url.replace('redis', 'rediss')}?socket_connect_timeout=0.2"
    assert "does not expect TLS" in await _refusal(quickly)
