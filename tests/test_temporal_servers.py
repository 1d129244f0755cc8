"""Temporal's own settings reach a server behind TLS, client certificates and API keys."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
import trustme
from agent_double import Cli, Ran
from certificates import write_certificates
from front_door import FrontDoor, front_door
from page_settings import changed, settings_of
from pages import blocks
from temporalio.client import Client

from onward.local_services import TemporalServer
from onward.names import ATTRIBUTES
from onward.search_attributes import create_command
from onward.testing.warm import WarmWorker

pytestmark = pytest.mark.timeout(60)

CA = "TEMPORAL_TLS_SERVER_CA_CERT_PATH"
NAME = "TEMPORAL_TLS_SERVER_NAME"
CERTIFICATE, KEY = "TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH"
API_KEY = "sesame"


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    """Make the CA of server and clients."""
    return trustme.CA()


@pytest.fixture(scope="module")
def files(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out the certificates that settings name."""
    return write_certificates(tmp_path_factory.mktemp("certificates"), ca)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def doors(ca: trustme.CA, temporal: TemporalServer) -> AsyncGenerator[dict[str, FrontDoor]]:
    """Open one way in of each kind."""
    here, elsewhere = ca.issue_cert("127.0.0.1"), ca.issue_cert("temporal.example.com")
    past = datetime.now(tz=UTC) - timedelta(days=1)
    old = ca.issue_cert("127.0.0.1", not_before=past - timedelta(days=1), not_after=past)
    async with (
        front_door(temporal.address, None) as plain,
        front_door(temporal.address, here) as tls,
        front_door(temporal.address, here, clients=ca) as mutual,
        front_door(temporal.address, here, api_key=API_KEY) as keyed,
        front_door(temporal.address, elsewhere) as misnamed,
        front_door(temporal.address, old) as expired,
    ):
        yield {
            "plain": plain,
            "tls": tls,
            "mutual": mutual,
            "keyed": keyed,
            "misnamed": misnamed,
            "expired": expired,
        }


Reach = Callable[[str, Mapping[str, str]], Awaitable[Ran]]


@pytest.fixture
def reach(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, doors: dict[str, FrontDoor], files: Path
) -> Reach:
    """Type a command where the certificates are, with nobody's settings but those given."""
    monkeypatch.chdir(files)

    def typed(door: str, settings: Mapping[str, str]) -> Awaitable[Ran]:
        where = {"TEMPORAL_CONFIG_FILE": "empty.pem", "TEMPORAL_ADDRESS": doors[door].address}
        for name, value in {**where, **settings}.items():
            monkeypatch.setenv(name, value)
        return cli("list")

    return typed


# ---- it connects


@pytest.mark.parametrize(
    ("door", "settings"),
    [
        ("tls", {CA: "ca.pem"}),
        ("misnamed", {CA: "ca.pem", NAME: "temporal.example.com"}),
        ("mutual", {CA: "ca.pem", CERTIFICATE: "client.pem", KEY: "client.key"}),
        ("keyed", {CA: "ca.pem", "TEMPORAL_API_KEY": API_KEY}),
        ("plain", {"TEMPORAL_API_KEY": API_KEY, "TEMPORAL_TLS": "false"}),
        ("plain", {"TEMPORAL_API_KEY": "", "TEMPORAL_TLS": "", CA: "", CERTIFICATE: "", KEY: ""}),
    ],
)
async def test_temporals_own_settings_reach_it(
    reach: Reach, doors: dict[str, FrontDoor], door: str, settings: dict[str, str]
) -> None:
    """A CA of one's own, another name, a client certificate, an API key; empty ones are none."""
    ran = await reach(door, settings)
    assert ran.code == 0, ran.err
    assert doors[door].seen[-1].get("temporal-namespace") == "default"
    key = settings.get("TEMPORAL_API_KEY")
    assert doors[door].seen[-1].get("authorization") == (f"Bearer {key}" if key else None)


PAGE = "docs/temporal-servers.md"


@pytest.mark.parametrize(
    ("door", "containing", "changes"),
    [
        ("mutual", "CLIENT_CERT", {"temporal.example.com:7233": "{door}", "/etc/onward/": ""}),
        ("misnamed", "SERVER_NAME", {"127.0.0.1:7233": "{door}", "/etc/onward/": ""}),
        (
            "keyed",
            "API_KEY",
            {
                "team.a1b2c.tmprl.cloud:7233": "{door}",
                "team.a1b2c": "default",
                "a-key-of-a-service-account": f"{API_KEY}\n{CA}=ca.pem",
            },
        ),
    ],
)
async def test_the_pages_settings_reach_it(
    reach: Reach,
    doors: dict[str, FrontDoor],
    door: str,
    containing: str,
    changes: dict[str, str],
) -> None:
    """What docs/temporal-servers.md shows works, with a server's address and a folder changed."""
    here = {old: new.format(door=doors[door].address) for old, new in changes.items()}
    ran = await reach(door, settings_of(PAGE, containing, here))
    assert ran.code == 0, ran.err


async def test_the_pages_profile_reaches_it(
    reach: Reach, doors: dict[str, FrontDoor], files: Path
) -> None:
    """A profile of Temporal's configuration file holds the same."""
    here = {"temporal.example.com:7233": doors["mutual"].address, "/etc/onward/": ""}
    profile = changed(PAGE, "toml", "[profile.production]", here)
    (files / "temporal.toml").write_text(profile)
    named = {"TEMPORAL_CONFIG_FILE": "temporal.toml", "TEMPORAL_PROFILE": "production"}
    ran = await reach("mutual", named | {"TEMPORAL_ADDRESS": ""})
    assert ran.code == 0, ran.err


async def test_the_pages_command_for_temporal_cloud_is_the_one_that_is_printed() -> None:
    """It names every search attribute, with its type."""
    cloud = await Client.connect("team.a1b2c.tmprl.cloud:7233", namespace="team.a1b2c", lazy=True)
    (block,) = (block for block in blocks(PAGE) if block.reason == "needs an account")
    assert block.text.strip() == create_command(cloud, ATTRIBUTES)


# ---- it does not, and one sentence says why

OURS, THEIRS = {CERTIFICATE: "client.pem", KEY: "client.key"}, {CERTIFICATE: "other-client.pem"}
OF_A_CLIENT = f"a client certificate, or another one. Set {CERTIFICATE} and {KEY}"


@pytest.mark.parametrize(
    ("door", "settings", "said"),
    [
        ("tls", {"TEMPORAL_TLS": "true"}, f"nobody who is trusted here. Name the file .* in {CA}"),
        ("tls", {CA: "other-ca.pem"}, f"nobody who is trusted here. Name the file .* in {CA}"),
        ("tls", {}, "as a server does that expects TLS. Set TEMPORAL_TLS=true"),
        ("plain", {"TEMPORAL_TLS": "true"}, "it does not speak TLS, .* set TEMPORAL_TLS=false"),
        ("plain", {"TEMPORAL_API_KEY": API_KEY}, "which the settings ask for .an API key does too"),
        ("misnamed", {CA: "ca.pem"}, f"not for this name .it has 'tempo.* set {NAME} to a name"),
        ("expired", {CA: "ca.pem"}, "its certificate has expired"),
        ("mutual", {CA: "ca.pem"}, OF_A_CLIENT),
        ("mutual", {CA: "ca.pem"} | THEIRS | {KEY: "other-client.key"}, OF_A_CLIENT),
        ("mutual", {CA: "ca.pem"} | OURS | THEIRS, "key is not that of its certificate. Correct"),
        ("mutual", {CA: "ca.pem"} | OURS | {CERTIFICATE: "empty.pem"}, "not in PEM form. Correct"),
        ("mutual", {CA: "ca.pem"} | OURS | {KEY: "empty.pem"}, "not in PEM form. Correct"),
        ("mutual", {CA: "ca.pem", CERTIFICATE: "client.pem"}, f"Set {CERTIFICATE} and {KEY}"),
        ("keyed", {CA: "ca.pem", "TEMPORAL_API_KEY": "wrong"}, "key or certificate was not accept"),
        ("keyed", {CA: "ca.pem"}, "key or certificate was not accepted. Set TEMPORAL_API_KEY"),
        ("tls", {CA: "ca.pem", "TEMPORAL_NAMESPACE": "nowhere"}, "has no namespace 'nowhere'"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(
    reach: Reach, door: str, settings: dict[str, str], said: str
) -> None:
    """Exit 3, with what was found and the setting to correct; no secret, no library's words."""
    ran = await reach(door, settings)
    assert ran.code == 3
    assert re.search(said, ran.err), ran.err
    assert "tonic" not in ran.err
    assert API_KEY not in ran.err


@pytest.mark.filterwarnings("ignore:Target host as URL")
@pytest.mark.parametrize("written", ["https://{}", " {} ", "dns:///{}"])
async def test_an_address_that_is_none_is_told(
    reach: Reach, doors: dict[str, FrontDoor], written: str
) -> None:
    """What people paste from a browser, and a space of a settings file: in our words."""
    address = written.format(doors["plain"].address)
    ran = await reach("plain", {"TEMPORAL_ADDRESS": address})
    assert ran.code == 3
    assert "no address of the form host:port. Correct TEMPORAL_ADDRESS: no https://" in ran.err


async def test_a_certificate_that_is_missing_is_named(reach: Reach) -> None:
    """Exit 2, with the file, before anything is connected."""
    ran = await reach("tls", {CA: "/nowhere/ca.pem"})
    assert (ran.code, "No such file or directory: '/nowhere/ca.pem'" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("ca_file", "ended"),
    [("other-ca.pem", (3, "nobody who is trusted here")), ("nowhere.pem", (2, "'nowhere.pem'"))],
)
async def test_a_worker_says_the_same(
    doors: dict[str, FrontDoor], files: Path, tmp_path: Path, ca_file: str, ended: tuple[int, str]
) -> None:
    """It ends by itself with the sentence, and no traceback: a supervisor's log shows why."""
    env = {"TEMPORAL_ADDRESS": doors["tls"].address, CA: ca_file}
    worker = await WarmWorker.start(env, log=tmp_path / "worker.log", cwd=files)
    assert (await worker.wait(30), ended[1] in worker.output()) == (ended[0], True)
    assert "Traceback" not in worker.output()
