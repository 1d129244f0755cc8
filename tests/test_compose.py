"""The compose file without Docker: what it asks for, and its shell scripts run by hand."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compose_file import EXAMPLE, FILLED_IN, SECRETS, TEXT, compose, services
from pages import ROOT, blocks
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from onward.local_services import TemporalServer
from onward.plugin.options import DRAIN
from onward.settings import Settings
from onward.testing import clean_env

PAGE = "docs/docker-compose.md"
ONCE = {"temporal-schema", "temporal-namespace"}
"""Services that end when their work is done."""
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def script(service: str) -> list[str]:
    """Tell the command line of a service that is a script, as Docker would run it."""
    found = services()[service]
    # `config` prints what a compose file would say, with each dollar sign doubled.
    return [word.replace("$$", "$") for word in (*found["entrypoint"], *found["command"])]


# ---- settings


@pytest.mark.parametrize("secret", sorted(SECRETS))
def test_without_a_secret_nothing_starts(secret: str) -> None:
    """A password left empty is an error that names it, never an open server."""
    read = compose(FILLED_IN | {secret: ""})
    assert read.returncode != 0
    assert f"set {secret} in .env; .env.example has all settings" in read.stderr


def test_without_any_settings_nothing_starts() -> None:
    """Whoever forgets `.env` is told of it."""
    read = compose({})
    assert read.returncode != 0
    assert "in .env; .env.example has all settings" in read.stderr


def test_the_example_names_every_setting_and_no_other() -> None:
    """What the file asks for can be looked up, and what can be set has an effect."""
    used = set(re.findall(r"\$\{(\w+)", TEXT)) | {"COMPOSE_PROJECT_NAME"}
    assert used == set(EXAMPLE)


def test_no_secret_is_in_the_files() -> None:
    """The example leaves them empty, and the compose file has no default for them."""
    assert {EXAMPLE[secret] for secret in SECRETS} == {""}
    for secret in SECRETS:
        assert f"${{{secret}:-" not in TEXT


def test_the_example_shows_the_defaults() -> None:
    """Whoever leaves a line out gets what the example says."""
    for name, default in re.findall(r"\$\{(\w+):-(.*?)\}", TEXT):
        assert EXAMPLE[name] == default


def test_a_workers_settings_are_settings_of_onward() -> None:
    """A name that nobody reads would be a setting without effect."""
    asked = {name for name in services()["worker"]["environment"] if name.startswith("ONWARD_")}
    known = {f"ONWARD_{name.upper()}" for name in Settings.model_fields}
    assert asked - known == set()


# ---- services


def test_every_tag_is_pinned_and_says_who_names_it() -> None:
    """The same file brings the same servers next year."""
    images = re.findall(r"^ +image: (\S+) # [\w-]+/[\w-]+, [\w./-]+$", TEXT, re.MULTILINE)
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(images) == TEXT.count(" image:") == len(services()) - 1
    for image in (*images, *bases):
        assert re.search(r":\d+\.\d+[\w.-]*$", image), image


def test_only_this_machine_reaches_the_ports() -> None:
    """Temporal asks nobody for a password."""
    ports = [port for service in services().values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_there_may_be_many_workers() -> None:
    """A name, an address or a port of its own would allow only one; their volumes are shared."""
    worker = services()["worker"]
    assert worker.keys() & {"container_name", "hostname", "ports", "networks"} == set()
    assert worker["volumes"] == ["payloads:/payloads:rw", "workspace:/workspace:rw"]
    assert "ONWARD_PAYLOAD_DIR=/payloads" in DOCKERFILE


def test_a_stopped_worker_has_time_to_drain() -> None:
    """Docker kills after the grace period, whatever still runs."""
    period = services()["worker"]["stop_grace_period"]
    assert int(period.removesuffix("s")) >= DRAIN.seconds + 5


def test_every_service_comes_back_and_says_how_it_is() -> None:
    """After a crash or a reboot it is started again; its log has an end; its health is checked."""
    for name, service in services().items():
        assert service["restart"] == ("on-failure" if name in ONCE else "unless-stopped")
        assert {"max-size", "max-file"} <= service["logging"]["options"].keys()
        checked = "healthcheck" in service or "HEALTHCHECK" in DOCKERFILE
        assert checked or name in ONCE


def test_who_is_waited_for_can_say_that_it_is_ready() -> None:
    """A service that waits for another's health must not wait for one without a check."""
    for service in services().values():
        for other, how in service.get("depends_on", {}).items():
            ends = other in ONCE
            wanted = "service_completed_successfully" if ends else "service_healthy"
            assert how == {"condition": wanted}
            assert ends or "healthcheck" in services()[other]


def test_a_database_that_is_only_being_set_up_is_not_healthy() -> None:
    """Until it is, its server listens on a socket alone; what reached it there would be cut off."""
    assert "--host=127.0.0.1" in services()["postgres"]["healthcheck"]["test"]


def test_data_is_in_named_volumes() -> None:
    """An anonymous volume is gone with its container."""
    mounts = [mount for service in services().values() for mount in service.get("volumes", ())]
    assert all(re.match(r"[a-z]+:/", mount) for mount in mounts)
    assert {mount.split(":")[0] for mount in mounts} == {
        *("postgres", "redis", "payloads", "workspace")
    }


# ---- scripts


@pytest.mark.parametrize("there", [False, True])
async def test_the_namespace_keeps_runs_as_long_as_is_said(
    temporal: TemporalServer, there: bool
) -> None:
    """One that is missing is made; one that is there is given what `.env` says now."""
    name = temporal.namespace if there else "composed"
    before = await retention_s(temporal) if there else 0
    try:
        await namespace_is_up(temporal, name, "31d")
        assert await retention_s(temporal, name) == 31 * 86_400
    finally:
        if there:  # other tests use it too
            await namespace_is_up(temporal, name, f"{before}s")


async def namespace_is_up(temporal: TemporalServer, name: str, retention: str) -> None:
    """Run the service for the namespace to its end."""
    env = {"TEMPORAL_ADDRESS": temporal.address, "NAMESPACE": name, "RETENTION": retention}
    ran = await asyncio.to_thread(run, "temporal-namespace", env)
    assert ran.returncode == 0, ran.stderr


async def retention_s(temporal: TemporalServer, name: str = "default") -> int:
    """Ask Temporal how long a namespace keeps what has ended."""
    client = await Client.connect(temporal.address)
    request = DescribeNamespaceRequest(namespace=name)
    found = await client.workflow_service.describe_namespace(request)
    return found.config.workflow_execution_retention_ttl.seconds


def test_both_databases_get_their_tables(tmp_path: Path) -> None:
    """In order, and no further than to the first that fails."""
    tool = tmp_path / "temporal-sql-tool"
    tool.write_text('#!/bin/sh\necho "$@" >>calls\n[ "$*" != "$FAILS" ]\n')
    tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert run("temporal-schema", env, tmp_path).returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[1:3] for call in calls] == [
        [database, verb]
        for database in ("temporal", "temporal_visibility")
        for verb in ("create", "setup-schema", "update-schema")
    ]
    assert calls[2].endswith("/v12/temporal/versioned")
    assert calls[5].endswith("/v12/visibility/versioned")
    (tmp_path / "calls").unlink()
    assert run("temporal-schema", env | {"FAILS": calls[1]}, tmp_path).returncode != 0
    assert (tmp_path / "calls").read_text().splitlines() == calls[:2]


def run(service: str, env: dict[str, str], folder: Path | None = None) -> Any:
    """Run a service's script on this machine, with its environment but for what is given."""
    tools = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    whole = clean_env(tools | services()[service]["environment"] | env)
    return subprocess.run(
        script(service), env=whole, cwd=folder, capture_output=True, text=True, check=False
    )


# ---- the page


def test_the_pages_override_fits_the_file(tmp_path: Path) -> None:
    """What it shows to add is added, and a secret of the user's can be required like ours."""
    (override,) = (block for block in blocks(PAGE) if block.language == "yaml")
    more = tmp_path / "docker-compose.override.yml"
    more.write_text(override.text)
    assert "set PAYMENTS_TOKEN in .env" in compose(FILLED_IN, more).stderr
    read = compose(FILLED_IN | {"PAYMENTS_TOKEN": "t"}, more)
    assert read.returncode == 0, read.stderr
    assert "PAYMENTS_URL: http://" in read.stdout


def test_page_and_example_speak_of_one_image() -> None:
    """The name that is built is the name that a team's own image begins from."""
    names = set(re.findall(r"\bonward:[\w.]+", (ROOT / PAGE).read_text()))
    assert len(names) == 1
    assert names == set(re.findall(r"\bonward:[\w.]+", (ROOT / ".env.example").read_text()))


def test_only_docker_keeps_the_pages_commands_from_being_run() -> None:
    """Whatever needs no Docker is run."""
    assert {block.reason for block in blocks(PAGE) if block.language == "bash"} == {"needs Docker"}
