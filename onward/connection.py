"""Which Temporal server to talk to, and the connection to it.

Temporal's own settings (`TEMPORAL_…` in the environment or `.env`, its config file and profiles)
come first. Only where none is given, and no Redis either, the server that a living
`onward-worker --local` wrote down in this folder is used.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Literal

from dotenv import dotenv_values
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, Plugin
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from onward.errors import ConnectError, UsageError
from onward.invoked import worker
from onward.payload_store import data_converter
from onward.settings import ENV_FILE, Settings
from onward.temporal_errors import cause

DEFAULT_ADDRESS, DEFAULT_NAMESPACE = "127.0.0.1:7233", "default"
CONNECT_TIMEOUT_S = 3.0
LOCAL_FILE = "local.json"


@dataclass(frozen=True)
class Target:
    """A Temporal namespace on a server, and why it is this one."""

    address: str
    namespace: str
    source: Literal["configured", "local", "default", "only redis"]
    """Temporal's own settings; a living `onward-worker --local`; nothing is configured at all; or
    only a Redis is, so that the servers of a living `onward-worker --local` are not used."""
    ui_url: str | None = None
    """Of the Temporal UI, where it is known."""
    options: ClientConnectConfig = field(default_factory=ClientConnectConfig, repr=False)
    """The rest: TLS, API key, metadata. Never printed: it holds secrets."""

    @property
    def speaks_tls(self) -> bool:
        """Whether the connection is one with TLS; an API key is never sent without, unless told."""
        tls = self.options.get("tls")
        return bool(tls) if tls is not None else "api_key" in self.options


@dataclass(frozen=True)
class Connection:
    """A connection to Temporal, and what else there is to know to reach runs over it."""

    client: Client
    target: Target
    settings: Settings


def configured_target() -> Target:
    """Read Temporal's own settings; without any, its usual local address.

    Raises:
        UsageError: a profile, a config file or a certificate that is named does not exist.

    """
    options = _envconfig()
    return Target(
        address=options.get("target_host") or DEFAULT_ADDRESS,
        namespace=options.get("namespace") or DEFAULT_NAMESPACE,
        source="configured" if options else "default",
        options=options,
    )


def find_target(settings: Settings) -> Target:
    """As `configured_target`; where nothing is configured use a living `onward-worker --local`."""
    target = configured_target()
    local = None if target.source == "configured" else _local_target(settings.data_dir)
    if local and settings.redis_is_configured:
        # Half of each would be a run whose records are in another Redis than its worker's.
        return replace(target, source="only redis")
    return local or target


@cache
def quiet_runtime() -> Runtime:
    """Make the runtime of a command, whose standard output is its result and nothing else.

    The Temporal client's default runtime writes its warnings to standard output.
    """
    return Runtime(telemetry=TelemetryConfig(logging=None))


async def connect(
    settings: Settings,
    target: Target | None = None,
    *,
    runtime: Runtime | None = None,
    plugins: Sequence[Plugin] = (),
) -> Client:
    """Connect to Temporal, with the data converter that all of Onward uses.

    Args:
        settings: say where large payloads are kept.
        target: None: `configured_target()`, never a guessed local server.
        runtime: None: the Temporal client's default one.
        plugins: a worker's `OnwardPlugin`. Without it large payloads are sent inline: what a
            command put into a folder on another machine, a long prompt say, no worker could read.

    Raises:
        ConnectError: no Temporal answers there in 3 s, or it has no such namespace.
        UsageError: Temporal's own settings are wrong.

    """
    target = target or configured_target()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            client = await Client.connect(
                target.address,
                namespace=target.namespace,
                api_key=target.options.get("api_key"),
                tls=target.options.get("tls"),
                rpc_metadata=target.options.get("rpc_metadata", {}),
                data_converter=data_converter(settings.payload_folder, stores=False),
                runtime=runtime,
                plugins=plugins,
            )
            await _check_namespace(client, target)
    except (RuntimeError, ValueError, TimeoutError, RPCError) as error:
        raise ConnectError(_no_answer(target, error)) from error
    return client


async def _check_namespace(client: Client, target: Target) -> None:
    # A connection alone asks for no namespace: a wrong one would show only in the first request.
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=target.namespace),
            timeout=timedelta(seconds=CONNECT_TIMEOUT_S),
        )
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise ConnectError(
                f"Temporal at {target.address!r} has no namespace {target.namespace!r}. Set "
                "TEMPORAL_NAMESPACE to one that it has, or create it: "
                f"temporal operator namespace create --namespace {target.namespace!r}"
            ) from error
        if error.status != RPCStatusCode.PERMISSION_DENIED:  # a key may be for runs alone
            raise


def _no_answer(target: Target, error: Exception) -> str:
    why = cause(error, tls=target.speaks_tls)
    ways = {
        "configured": "Check TEMPORAL_ADDRESS (and TEMPORAL_API_KEY, TEMPORAL_TLS… or the profile)",
        "local": f"Look at the terminal of `{worker('--local')}`, and start it again",
        "default": (
            f"No address is configured. Start `{worker('--local')}` in this folder, "
            "or set TEMPORAL_ADDRESS to your server"
        ),
        "only redis": (
            f"ONWARD_REDIS_URL is set, so the servers of `{worker('--local')}` in this folder are "
            "not used. Unset it, or set TEMPORAL_ADDRESS too"
        ),
    }
    return (
        f"no Temporal server at {target.address!r} (namespace {target.namespace!r}): {why.found}. "
        f"{why.todo or ways[target.source]}."
    )


def _envconfig() -> ClientConnectConfig:
    # An empty one is no setting, as with ours: Temporal's reader takes an empty API key for a key.
    environment = {name: value for name, value in {**_dotenv(), **os.environ}.items() if value}
    named = environment.get("TEMPORAL_CONFIG_FILE")
    if named and not Path(named).is_file():  # Temporal's reader ignores it without a word
        raise UsageError(
            f"TEMPORAL_CONFIG_FILE names {named!r}, which is no file. Correct it or unset it"
        )
    try:
        return ClientConfig.load_client_connect_config(override_env_vars=environment)
    except Exception as error:  # its errors share no base: ConfigError of Rust, OSError, ValueError
        raise UsageError(
            f"Temporal's settings cannot be used: {error}. Look at TEMPORAL_… in the environment, "
            f"at {ENV_FILE!r} and at Temporal's config file"
        ) from error


def _dotenv() -> dict[str, str]:
    try:
        found = dotenv_values(ENV_FILE)
    except (OSError, UnicodeDecodeError):
        return {}  # `load_settings` has said it already
    return {name: value for name, value in found.items() if value is not None}


def _local_target(data_dir: Path) -> Target | None:
    if not (data_dir / LOCAL_FILE).exists():
        return None
    # Only a folder with a local worker pays for loading what starts servers.
    from onward.local_services import read_local  # noqa: PLC0415

    local = read_local(data_dir)
    if local is None:
        return None
    return Target(local.temporal_address, local.namespace, "local", local.ui_url)
