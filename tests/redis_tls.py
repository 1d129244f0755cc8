"""A Redis with TLS: the machine's own, for the embedded Valkey is built without."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from redis_kinds import binary_of

from onward.local_services import RedisServer
from onward.local_services.data_dir import HeldFolder, held_folder

S = TypeVar("S", bound=RedisServer)


class TlsRedis(RedisServer):
    """A server with a port for TLS beside the plain one."""

    port_count = 2

    def __init__(self, folder: HeldFolder, files: Path, name: str, *, clients: bool) -> None:
        super().__init__(folder, binary_of("redis"))
        self._files, self._name, self._clients = files, name, clients

    @property
    def tls_url(self) -> str:
        """`rediss://…` of database 0, without options."""
        return f"rediss://127.0.0.1:{self.ports[1]}/0"

    def _command(self) -> list[str]:
        return [*super()._command(), *self._tls()]

    def _tls(self) -> list[str]:
        return [
            *("--tls-port", str(self.ports[1])),
            *("--tls-cert-file", str(self._files / f"{self._name}.pem")),
            *("--tls-key-file", str(self._files / f"{self._name}.key")),
            *("--tls-ca-cert-file", str(self._files / "ca.pem")),
            *("--tls-auth-clients", "yes" if self._clients else "no"),
        ]


class TlsSentinel(TlsRedis):
    """A Sentinel with TLS, to its clients and to the primary that it looks at."""

    primary_port: int

    def _command(self) -> list[str]:
        config = self.folder / "sentinel.conf"
        config.write_text(f"sentinel monitor ledger 127.0.0.1 {self.primary_port} 1\n")
        own = ("--port", str(self.ports[0]), "--bind", "127.0.0.1", "--set-proc-title", "no")
        tls = (*self._tls(), "--tls-replication", "yes")
        return [str(binary_of("redis")), str(config), "--sentinel", *own, *tls]


@asynccontextmanager
async def tls_redis(files: Path, name: str, *, clients: bool = False) -> AsyncGenerator[TlsRedis]:
    """Run a server that shows the certificate `name` in `files`, until the block ends.

    `clients`: they must show a certificate of the CA in `files`.
    """
    with held_folder(None, "redis") as folder:
        async with _running(TlsRedis(folder, files, name, clients=clients)) as server:
            yield server


@asynccontextmanager
async def tls_sentinel(files: Path, primary: TlsRedis) -> AsyncGenerator[TlsSentinel]:
    """Run a Sentinel that knows `primary`, with its certificate, until the block ends."""
    with held_folder(None, "redis") as folder:
        sentinel = TlsSentinel(folder, files, "here", clients=False)
        sentinel.primary_port = primary.ports[1]
        async with _running(sentinel):
            yield sentinel


@asynccontextmanager
async def _running(server: S) -> AsyncGenerator[S]:
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
