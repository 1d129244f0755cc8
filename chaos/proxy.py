"""A TCP proxy that can delay, cut in the middle, and swallow replies.

    async with Proxy(upstream_port) as proxy:
        async with proxy.trouble(fault):
            …  # connections to proxy.port suffer

An upstream that is down looks like a server that went away: the connection ends.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from chaos.plan import Fault, Side

_CHUNK_BYTES = 65_536


class Proxy:
    """Listens on a loopback port of its own and hands on to another."""

    def __init__(self, upstream_port: int) -> None:
        self.port = 0
        self._upstream_port = upstream_port
        self._server: asyncio.Server | None = None
        self._fault: Fault | None = None
        self._over = asyncio.Event()
        self._connections = set[asyncio.Task[None]]()

    async def __aenter__(self) -> Self:
        """Listen; `port` is set from now on."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening and abort every connection."""
        if self._server:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @asynccontextmanager
    async def trouble(self, fault: Fault) -> AsyncGenerator[None]:
        """Do to every chunk what the fault says, until the block ends."""
        self._fault, self._over = fault, asyncio.Event()
        try:
            yield
        finally:
            self._fault = None
            self._over.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is handled in a task"
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            return  # it is down; whoever asked sees the connection end
        ways = [
            asyncio.create_task(self._pump(reader, up_writer, "request")),
            asyncio.create_task(self._pump(up_reader, writer, "reply")),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            up_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: Side
    ) -> None:
        """Hand on one way; its return ends the connection."""
        while chunk := await reader.read(_CHUNK_BYTES):
            match self._fault:
                case Fault(kind="delay", delay_s=delay_s):
                    await asyncio.sleep(delay_s)
                case Fault(kind="cut", side=cut) if cut == side:
                    writer.write(chunk[: len(chunk) // 2])
                    await writer.drain()
                    return
                case Fault(kind="swallow") if side == "reply":
                    # The connection is lost with it: the next reply on it would be taken for this.
                    await self._over.wait()
                    return
                case _:
                    pass
            writer.write(chunk)
            await writer.drain()
