"""What stands before a Temporal server that is not on this machine: TLS, client certificates, keys.

The development server has none of them. So this terminates TLS, looks at each request, and hands
it on as it is.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import trustme

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it logs each handshake that fails, as some must
grpc: Any = import_module("grpc.aio")
codes: Any = import_module("grpc").StatusCode


@dataclass
class FrontDoor:
    """A way in to a Temporal server."""

    _inside: Any
    api_key: str | None = None
    """The only one that is let in; None: nobody is asked for one."""
    address: str = ""
    seen: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Metadata of each request, `authorization` among them."""

    def service(self, request: Any) -> Any:
        """Tell gRPC who answers a request: any method, as bytes."""
        metadata = {name: str(value) for name, value in request.invocation_metadata}

        async def answer(body: bytes, context: Any) -> Any:
            self.seen.append(metadata)
            if self.api_key and metadata.get("authorization") != f"Bearer {self.api_key}":
                await context.abort(codes.UNAUTHENTICATED, "Request unauthorized.")
            try:
                call = self._inside.unary_unary(request.method)
                return await call(body, timeout=context.time_remaining())
            except grpc.AioRpcError as error:
                return await context.abort(error.code(), error.details())

        return import_module("grpc").unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def front_door(
    inside: str,
    certificate: trustme.LeafCert | None,
    *,
    clients: trustme.CA | None = None,
    api_key: str | None = None,
) -> AsyncGenerator[FrontDoor]:
    """Stand before the server at `inside`, until the block ends.

    Args:
        inside: its address.
        certificate: what is shown to clients; None: no TLS.
        clients: CA of the certificates that clients must have; None: they need none.
        api_key: as `FrontDoor.api_key`.

    """
    async with grpc.insecure_channel(inside) as channel:
        server, door = grpc.server(), FrontDoor(channel, api_key)
        server.add_generic_rpc_handlers((door,))
        where = "127.0.0.1:0"
        port = (
            server.add_insecure_port(where)
            if certificate is None
            else server.add_secure_port(where, _credentials(certificate, clients))
        )
        door.address = f"127.0.0.1:{port}"
        await server.start()
        try:
            yield door
        finally:
            await server.stop(grace=None)


def _credentials(certificate: trustme.LeafCert, clients: trustme.CA | None) -> Any:
    key = certificate.private_key_pem.bytes()
    chain = b"".join(pem.bytes() for pem in certificate.cert_chain_pems)
    return import_module("grpc").ssl_server_credentials(
        [(key, chain)],
        root_certificates=clients and clients.cert_pem.bytes(),
        require_client_auth=clients is not None,
    )
