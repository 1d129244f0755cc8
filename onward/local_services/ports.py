"""Free TCP ports on loopback that stay the same over restarts."""

import json
import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path

# Below the range from which Linux and macOS take the ports of outgoing connections: there, a client
# that reconnects to a dead server's port can be given that very port and connect to itself.
_LOWEST, _HIGHEST = 20_000, 32_000
# Not the module-level generator: test runners seed that one alike in parallel processes.
_random = random.SystemRandom()


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Find `count` free ports. Another process may still be faster: be ready to ask again."""
    found: list[int] = []
    while len(found) < count:
        port = _random.randint(_LOWEST, _HIGHEST)
        if port not in found and is_free(port):
            found.append(port)
    return found


def remembered_ports(file: Path, count: int) -> list[int]:
    """Return the ports that `file` remembers if all are free, else new ones."""
    try:
        ports: list[int] = json.loads(file.read_text())["ports"]
    except (OSError, ValueError, KeyError, TypeError):
        ports = []
    if len(ports) == count and all(is_free(port) for port in ports):
        return ports
    return free_ports(count)


def remember_ports(file: Path, ports: Sequence[int]) -> None:
    """Write `file` for the next `remembered_ports`."""
    written = file.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps({"ports": list(ports)}))
    written.replace(file)
