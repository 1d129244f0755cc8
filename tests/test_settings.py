import os
from pathlib import Path

import psutil
import pytest

from onward.connection import DEFAULT_ADDRESS, find_target
from onward.errors import UsageError
from onward.local_services import LocalAddresses, write_local
from onward.settings import Settings, load_settings, misspelt


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder, nothing configured, no config file of Temporal's in reach."""
    for name in list(os.environ):
        if name.startswith(("ONWARD_", "TEMPORAL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def local(folder: Path, **changes: float) -> None:
    (folder / ".onward").mkdir()
    addresses = LocalAddresses(
        temporal_address="127.0.0.1:4321",
        namespace="default",
        redis_url="redis://127.0.0.1:1",
        ui_url="http://127.0.0.1:4322",
    )
    write_local(folder / ".onward", addresses.model_copy(update=changes))


def test_what_is_documented_is_the_default() -> None:
    """The defaults are those of the documentation."""
    settings = load_settings()
    assert settings.redis_url == "redis://127.0.0.1:6379/0"
    assert (settings.app, settings.task_queue) == ("", "onward")
    assert settings.data_dir == Path(".onward")
    assert settings.payload_folder == Path(".onward/payloads")
    assert settings.takeover_s == 1.5
    assert settings.deployment is None


def test_environment_outranks_dotenv(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    """Both `.env` and the environment are read; the environment wins; an empty one is no value."""
    (bare / ".env").write_text("ONWARD_APP=mine:app\nONWARD_TASK_QUEUE=file\nOTHER=1\n")
    monkeypatch.setenv("ONWARD_TASK_QUEUE", "env")
    monkeypatch.setenv("ONWARD_DEPLOYMENT", "")
    settings = load_settings()
    assert (settings.app, settings.task_queue) == ("mine:app", "env")
    assert settings.deployment is None


def test_a_folder_may_be_named_from_home(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    """No shell reads `.env`: a folder named `~` would be made, and shared with nobody."""
    monkeypatch.setenv("HOME", "/home/shop")
    (bare / ".env").write_text("ONWARD_PAYLOAD_DIR=~/payloads\n")
    assert load_settings().payload_folder == Path("/home/shop/payloads")
    monkeypatch.setenv("ONWARD_PAYLOAD_DIR", "~no-such-user/payloads")
    with pytest.raises(UsageError, match="ONWARD_PAYLOAD_DIR is '~no-such-user/payloads'"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [("ONWARD_TAKEOVER_S", "0.1"), ("ONWARD_TAKEOVER_S", "61"), ("ONWARD_TAKEOVER_S", "soon")],
)
def test_impossible_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A value that cannot be is refused with its name, the value and what is possible."""
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=rf"{name} is '{value}': input should be"):
        load_settings()


def test_a_name_that_is_nearly_a_settings_is_told(
    monkeypatch: pytest.MonkeyPatch, bare: Path
) -> None:
    """It leaves a default in force that nobody chose; names of one's own are one's own."""
    monkeypatch.setenv("ONWARD_TASK_QUEUE", "orders")
    monkeypatch.setenv("ONWARD_REDIS_PASSWORD", "a compose file's")
    assert misspelt() == []
    monkeypatch.setenv("ONWARD_REDISURL", "redis://example.com")
    (bare / ".env").write_text("ONWARD_RATE_LIMIT=x\n")
    assert misspelt() == [
        "ONWARD_RATE_LIMIT is no setting: is ONWARD_RATE_LIMITS meant?",
        "ONWARD_REDISURL is no setting: is ONWARD_REDIS_URL meant?",
    ]


def test_dotenv_that_is_no_text_is_named(bare: Path) -> None:
    """A broken `.env` is one clear message, no traceback."""
    (bare / ".env").write_bytes(b"ONWARD_APP=\xff\n")
    with pytest.raises(UsageError, match=r"cannot read '\.env'"):
        load_settings()


def test_a_folder_that_is_gone_is_told(bare: Path) -> None:
    """A shell that stands where a deploy has put another folder gets a sentence, no traceback."""
    gone = bare / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="no longer there"):
        load_settings()


def test_living_local_worker_is_used_if_nothing_is_configured(bare: Path) -> None:
    """Where nothing is configured, the servers of a living `onward-worker --local` are used."""
    local(bare)
    target = find_target(load_settings())
    assert (target.address, target.source) == ("127.0.0.1:4321", "local")
    assert target.ui_url == "http://127.0.0.1:4322"


def test_local_worker_that_is_dead_is_not_used(bare: Path) -> None:
    """What a dead `onward-worker --local` left behind leads nobody to a wrong server."""
    local(bare, pid=psutil.Process().pid, started_at=1.0)
    target = find_target(load_settings())
    assert (target.address, target.source) == (DEFAULT_ADDRESS, "default")


@pytest.mark.parametrize(
    "configured",
    [
        {"TEMPORAL_ADDRESS": "example.test:7233"},
        {"TEMPORAL_NAMESPACE": "mine"},
        {"ONWARD_REDIS_URL": "redis://example.test"},
    ],
)
def test_anything_configured_outranks_the_local_worker(
    monkeypatch: pytest.MonkeyPatch, bare: Path, configured: dict[str, str]
) -> None:
    """Somebody who configured a server is never led to another one."""
    local(bare)
    for name, value in configured.items():
        monkeypatch.setenv(name, value)
    target = find_target(load_settings())
    assert target.source != "local"
    assert target.address == configured.get("TEMPORAL_ADDRESS", DEFAULT_ADDRESS)


def test_temporals_settings_may_be_in_dotenv(bare: Path) -> None:
    """`.env` may name the Temporal server as well."""
    (bare / ".env").write_text("TEMPORAL_ADDRESS=example.test:7233\nTEMPORAL_NAMESPACE=team\n")
    target = find_target(load_settings())
    assert (target.address, target.namespace) == ("example.test:7233", "team")


@pytest.mark.parametrize(
    ("name", "value"),
    [("TEMPORAL_CONFIG_FILE", "nowhere.toml"), ("TEMPORAL_PROFILE", "nobody")],
)
def test_config_that_does_not_exist_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """A profile or config file that is named but missing is no reason to use another server."""
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=value):
        find_target(load_settings())


def test_secrets_are_not_in_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API key shows in no representation of where we connect to."""
    monkeypatch.setenv("TEMPORAL_API_KEY", "very-secret")
    assert "very-secret" not in repr(find_target(Settings()))
