"""Temporal and a Redis-compatible server as child processes: no installation, no containers.

Both listen on random loopback ports only, keep their data in a folder (one process at a time) or
in a temporary one, and die when the process that started them dies, however it dies.
"""

from onward.local_services.addresses import LocalAddresses, read_local, remove_local, write_local
from onward.local_services.redis import RedisServer, redis_server
from onward.local_services.temporal import TemporalServer, temporal_server

__all__ = [
    "LocalAddresses",
    "RedisServer",
    "TemporalServer",
    "read_local",
    "redis_server",
    "remove_local",
    "temporal_server",
    "write_local",
]
