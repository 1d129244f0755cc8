"""The ledger's Redis behind TLS, and behind Sentinel: reached, or one sentence why not."""

import uuid
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
import trustme
from agent_runs import says, uses
from certificates import write_certificates, write_pair
from crash_runs import CrashBench
from page_settings import settings_of
from redis_guarded import Guarded, guarded
from redis_tls import TlsRedis, tls_redis, tls_sentinel

from onward.errors import ConnectError, UsageError
from onward.local_services import RedisServer, TemporalServer
from onward.local_services.data_dir import held_folder
from onward.local_services.redis import find_valkey
from onward.redis_server.connection import loaded, redis_client, redis_errors, shown
from onward.redis_server.guarantee import guarantee, refuse_mode
from onward.redis_server.url import parse
from onward.testing import wait_until
from onward.testing.warm import WarmWorker

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


PAGE = "docs/redis-servers.md"


@pytest.mark.parametrize(
    ("containing", "sentinels", "tls"),
    [
        ("URL=redis://", [], False),
        ("ssl_certfile", [], True),
        ("redis+sentinel", ["one.example.com", "two.example.com", "three.example.com"], False),
    ],
)
def test_the_pages_urls_say_what_the_page_says(
    files: Path, containing: str, sentinels: list[str], *, tls: bool
) -> None:
    """Server, Sentinels, logins, name and database of docs/redis-servers.md are read so."""
    changes = {"/etc/onward": str(files)} if tls else {}
    place = parse(settings_of(PAGE, containing, changes)["ONWARD_REDIS_URL"])
    assert [host for host, port in place.sentinels if port == 26379] == sentinels
    assert place.options.get("host") == (None if sentinels else "redis.example.com")
    assert (place.options["username"], place.options["password"]) == ("onward", "PASSWORD")
    assert (place.options["db"], place.tls) == (0, tls)
    assert (place.service, place.sentinel_login) == (
        ("ledger", (None, "OTHER")) if sentinels else ("", (None, None))
    )


# ---- TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out the certificates of two servers and their clients."""
    ca = trustme.CA()
    folder = write_certificates(tmp_path_factory.mktemp("certificates"), ca)
    write_pair(folder, "here", ca.issue_cert("127.0.0.1"))
    write_pair(folder, "elsewhere", ca.issue_cert("redis.example.com"))
    now, day = datetime.now(tz=UTC), timedelta(days=1)
    for name, start, end in (
        ("past", now - 2 * day, now - day),
        ("future", now + day, now + 2 * day),
    ):
        write_pair(folder, name, ca.issue_cert("127.0.0.1", not_before=start, not_after=end))
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def servers(files: Path) -> AsyncGenerator[dict[str, TlsRedis]]:
    """Run one server of each kind."""
    async with (
        tls_redis(files, "here") as tls,
        tls_redis(files, "here", clients=True) as mutual,
        tls_redis(files, "elsewhere") as misnamed,
        tls_redis(files, "past") as expired,
        tls_redis(files, "future") as too_new,
    ):
        yield {
            "tls": tls,
            "mutual": mutual,
            "misnamed": misnamed,
            "expired": expired,
            "too new": too_new,
        }


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
        ("expired", "ssl_ca_certs={f}/ca.pem", "its certificate has expired. Renew it"),
        ("too new", "ssl_ca_certs={f}/ca.pem", "is not valid yet. Set this machine's clock"),
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
    assert "nobody who is trusted here" in await _refusal(tls.tls_url.replace("rediss", "REDISS"))
    assert "Write rediss://" in await _refusal(tls.tls_url.replace("rediss", "redis"))
    quickly = f"{tls.url.replace('redis', 'rediss')}?socket_connect_timeout=0.2"
    assert "does not expect TLS" in await _refusal(quickly)


async def test_tls_reaches_through_sentinel(servers: dict[str, TlsRedis], files: Path) -> None:
    """`rediss+sentinel` is TLS to Sentinel and server, with the same CA; a wrong one is told."""
    async with tls_sentinel(files, servers["tls"]) as sentinel:
        url = f"rediss+sentinel://127.0.0.1:{sentinel.ports[1]}/ledger/0?ssl_ca_certs={files}"
        async with redis_client(f"{url}/ca.pem") as redis, redis_errors(url):
            await loaded(redis, pytest.fail)
        assert "nobody who is trusted here" in await _refusal(f"{url}/other-ca.pem")


# ---- Sentinel


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def trio() -> AsyncGenerator[Guarded]:
    """Run a primary, its replica and a Sentinel; the last test here kills the primary."""
    async with guarded() as servers:
        yield servers


async def test_what_is_wrong_with_sentinels_is_said_in_one_sentence(trio: Guarded) -> None:
    """Another name, all of them away, their password, the server's: each is told apart."""
    for old, new, said in (
        ("/ledger/", "/other/", "its Sentinels know no 'other' that is up (1 of 2 do not answer)"),
        (f":{trio.sentinel.ports[0]}", ":2", "none of its 2 Sentinels answers (Error"),
        (
            "sentinel_password=of",
            "sentinel_password=",
            "a Sentinel does not let us in (sentinel_username",
        ),
        ("default:of", "default:", "it does not let us in"),
    ):
        told = await _refusal(trio.url.replace(old, new))
        assert said in told
        assert "password=…" in told


async def test_a_server_behind_sentinel_is_lossy_without_a_replica_too(trio: Guarded) -> None:
    """While its replica is away a primary looks single; Sentinel promotes that one all the same."""
    async with redis_client(trio.url) as redis:
        found = await guarantee(redis)
    assert not found.strict
    assert "behind Sentinel, which may promote a replica without the last writes" in found.reasons


@pytest.mark.crash
@pytest.mark.timeout(120)
async def test_a_run_goes_on_when_sentinel_fails_over(
    crash_bench: CrashBench, trio: Guarded
) -> None:
    """The primary dies in the middle of an effect: the run goes on, and no effect happens twice.

    The worker says that it is lossy, and why.
    """
    orders = [f"over-{number}-{uuid.uuid4().hex[:8]}" for number in range(4)]
    first, slow, third, fourth = orders
    async with crash_bench.worker(ONWARD_REDIS_URL=trio.url) as worker:
        run = await crash_bench.bench.start(
            uses(("pay_out", {"order": first})),
            uses(("pay_out", {"order": slow, "trouble": "delay_after_s=0.5"})),
            uses(("pay_out", {"order": third})),
            uses(("refund", {"order": fourth})),
            says(),
        )
        await wait_until(lambda: crash_bench.effects(slow), 30, what="the second effect")
        await trio.primary.kill()
        result = await run.ended()
        assert "behind Sentinel, which may promote a replica" in worker.output()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    assert [crash_bench.effects(order) for order in orders] == [1, 1, 1, 1]
    async with redis_client(trio.url) as redis:
        assert trio.replica.ports[0] == int((await cast("Any", redis).info("server"))["tcp_port"])


async def test_a_sentinel_is_not_taken_for_a_server(trio: Guarded) -> None:
    """It answers and keeps nothing: a worker says how it is named instead."""
    async with trio.sentinel.client() as redis:
        found = await guarantee(redis)
    with pytest.raises(UsageError, match="a Redis Sentinel, which keeps no data"):
        refuse_mode(found)


# ---- a cluster


class ClusterNode(RedisServer):
    """A node that has all the slots of its cluster, so that only its mode is in the way."""

    def _command(self) -> list[str]:
        return [*super()._command(), "--cluster-enabled", "yes", "--cluster-port", "0"]


@pytest.mark.crash
async def test_a_worker_refuses_a_cluster(temporal: TemporalServer, tmp_path: Path) -> None:
    """Its other nodes hold most runs: exit 2, with why, instead of runs that hang on MOVED."""
    with held_folder(None, "redis") as folder:
        node = ClusterNode(folder, find_valkey())
        await node.start()
        env = {"TEMPORAL_ADDRESS": temporal.address, "ONWARD_REDIS_URL": node.url}
        try:
            worker = await WarmWorker.start(env, log=tmp_path / "worker.log")
            assert await worker.wait(30) == 2
        finally:
            await node.stop()
    assert "this Redis is a cluster" in worker.output()
    assert "cluster mode off" in worker.output()
