"""Points f5, f6 and f7 in a tool that knows nothing of them: in the sockets that it uses.

In the crash test's workers only, and only while the tool runs on its thread. Sync clients call
these methods of `socket.socket` and `ssl.SSLSocket` themselves; asyncio's loops do it for async
clients. A C driver, a subprocess or a file passes none of them.
"""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from onward.failpoints import failpoint
from onward.testing.crash_test.recording import Request

_HANDSHAKE = (b"\x14\x03", b"\x16\x03")
"""How the bytes of a TLS handshake begin: no request yet."""

_Original = Callable[..., Any]


class SocketTap:
    """Sees the requests that a tool makes; `install` once in a process."""

    def __init__(self, tool_runs: Callable[[], bool]) -> None:
        self.requests: list[Request] = []
        self._tool_runs = tool_runs
        self._sends = self._asked = self._replied = 0
        self._open: WeakKeyDictionary[socket.socket, Request] = WeakKeyDictionary()

    def install(self) -> None:
        """Put the tap between clients and sockets, for good."""
        plain, tls = socket.socket, ssl.SSLSocket
        # Of TLS only these: its other methods call them.
        for cls, sending in ((plain, "send"), (plain, "sendall"), (tls, "send")):
            _wrap(cls, sending, self._send)
        _wrap(plain, "sendmsg", self._sendmsg)
        for cls, receiving in ((plain, "recv"), (plain, "recv_into"), (tls, "read")):
            _wrap(cls, receiving, self._receive)

    def _send(self, original: _Original, sock: socket.socket, data: Any, *flags: int) -> Any:
        view = memoryview(data).cast("B")
        if not self._sees(sock) or bytes(view[:2]) in _HANDSHAKE:
            return original(sock, data, *flags)
        self._note_send(sock)
        half = len(view) // 2
        sent = original(sock, view[:half], *flags) if half else 0
        if sent is not None and sent < half:
            return sent
        _cuttable("f5", sock)
        return _rest(original, sock, view[half:], half, sent, *flags)

    def _sendmsg(self, original: _Original, sock: socket.socket, buffers: Any, *more: Any) -> Any:
        if more or not self._sees(sock):
            return original(sock, buffers, *more)
        return sock.send(b"".join(buffers))

    def _receive(self, original: _Original, sock: socket.socket, *args: Any, **named: Any) -> Any:
        request = self._open.get(sock) if self._sees(sock) else None
        if request is None:
            return original(sock, *args, **named)
        if not request.asked:
            self._asked += 1
            request.asked = self._asked
            _cuttable("f6", sock)
        got = original(sock, *args, **named)
        self._open.pop(sock)
        self._replied += 1
        request.replied = self._replied
        failpoint("f7")
        return got

    def _note_send(self, sock: socket.socket) -> None:
        self._sends += 1
        request = self._open.get(sock)
        if request is None:
            request = self._open[sock] = Request(self._sends)
            self.requests.append(request)
        request.last_send = self._sends

    def _sees(self, sock: socket.socket) -> bool:
        # The worker's own connections live on its main thread; whatever other thread a tool uses
        # (asyncio.to_thread, a pool of its own) is a tool's.
        if threading.current_thread() is threading.main_thread() or not self._tool_runs():
            return False
        return sock.type == socket.SOCK_STREAM and not _is_a_pair(sock)


def _is_a_pair(sock: socket.socket) -> bool:
    """Of socketpair(): an event loop wakes itself up with one."""
    return sock.family == socket.AF_UNIX and not sock.getpeername()


def _rest(
    original: _Original, sock: socket.socket, rest: Any, half: int, sent: int | None, *flags: int
) -> int | None:
    try:
        more = original(sock, rest, *flags)
    except (BlockingIOError, ssl.SSLWantWriteError):
        return half  # `send` may take less than it was given; its caller sends the rest later
    return None if sent is None else half + int(more)


def _cuttable(point: str, sock: socket.socket) -> None:
    """Pass a point at which the connection may be cut, as by a network that loses the rest."""
    try:
        failpoint(point)
    except RuntimeError as error:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError(f"the crash test cut the connection ({error})") from error


def _wrap(cls: type, name: str, through: Callable[..., Any]) -> None:
    original = getattr(cls, name)

    def wrapped(sock: Any, *args: Any, **named: Any) -> Any:
        return through(original, sock, *args, **named)

    setattr(cls, name, wrapped)
