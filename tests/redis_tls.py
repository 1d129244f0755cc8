"""A Redis with TLS: the machine's own, for the embedded Valkey is built without."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from redis_kinds import binary_of

from onward.local_services import RedisServer
from onward.local_services.data_dir import HeldFolder, held_folder


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
        return [
            *(*super()._command(), "--tls-port", str(self.ports[1])),
            *("--tls-cert-file", str(self._files / f"{self._name}.pem")),
            *("--tls-key-file", str(self._files / f"{self._name}.key")),
            *("--tls-ca-cert-file", str(self._files / "ca.pem")),
            *("--tls-auth-clients", "yes" if self._clients else "no"),
        ]


@asynccontextmanager
async def tls_redis(files: Path, name: str, *, clients: bool = False) -> AsyncGenerator[TlsRedis]:
    """Run a server that shows the certificate `name` in `files`, until the block ends.

    `clients`: they must show a certificate of the CA in `files`.
    """
    with held_folder(None, "redis") as folder:
        server = TlsRedis(folder, files, name, clients=clients)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
