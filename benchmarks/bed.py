"""The servers that a benchmark stands on: Temporal, Redis and Claude's side, each a process."""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import psutil
from temporalio.client import Client

from benchmarks.lean_api import Progress
from onward.local_services import RedisServer, TemporalServer, redis_server, temporal_server
from onward.payload_store import data_converter
from onward.testing.processes import ServiceProcess
from onward.tools.orphans import guard


@dataclass(frozen=True)
class Seen:
    """One run as the API saw it."""

    progress: Progress
    steps: int
    """Replies that were sent."""

    def ms_per_step(self, first: float = 0.0, last: float = 1.0) -> float | None:
        """Mean time from an answer to the next request, over a part of the run.

        None where that part has no step. What the API itself takes, turns included, is left out.
        """
        pairs = list(pairwise(range(self.steps)))
        part = pairs[int(len(pairs) * first) : max(1, round(len(pairs) * last))]
        if not part:
            return None
        arrived, answered = self.progress.arrived_s, self.progress.answered_s
        return 1000 * sum(arrived[to] - answered[at] for at, to in part) / len(part)


@dataclass(frozen=True)
class Bed:
    """Where the servers are, and a folder that goes when they go."""

    temporal: TemporalServer
    redis: RedisServer
    api: ServiceProcess
    client: Client
    http: httpx2.AsyncClient
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a contender's process needs to know. The key is a dummy."""
        return {
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": "benchmark",
            "TEMPORAL_ADDRESS": self.temporal.address,
            "TEMPORAL_NAMESPACE": self.temporal.namespace,
            "ONWARD_REDIS_URL": self.redis.url,
            "ONWARD_PAYLOAD_DIR": str(self.folder / "payloads"),
            "PYTHONUNBUFFERED": "1",
        }

    async def seen(self, run: str) -> Seen:
        """Ask the API what it saw of a run."""
        reply = await self.http.get(f"/progress/{run}")
        progress = Progress(**reply.raise_for_status().json())
        return Seen(progress, steps=len(progress.answered_s))

    async def take_turns(self, runs: Sequence[str], block: int) -> None:
        """Let runs work in turn, `block` steps each, until each has had its last reply."""
        reply = await self.http.post("/turns", json={"runs": list(runs), "block": block})
        reply.raise_for_status()

    def pids(self) -> dict[str, int]:
        """Process ids of the servers, by name."""
        return {"temporal": self.temporal.pid, "redis": self.redis.pid, "api": self.api.pid}


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    times: Any = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def peak_mb(pid: int) -> float:
    """Largest resident memory of a process so far, in 10^6 bytes, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (peak,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return round(int(peak.split()[1]) * 1024 / 1e6, 1)


@asynccontextmanager
async def bed() -> AsyncGenerator[Bed]:
    """Start the servers; at the end everything is gone, processes and folder."""
    guard()
    with TemporaryDirectory(prefix="onward-benchmark-") as name:
        folder = Path(name)
        async with temporal_server(folder, ui=False) as temporal, redis_server(folder) as redis:
            api = await ServiceProcess.start_module("benchmarks.lean_api", log=folder / "api.log")
            converter = data_converter(folder / "payloads")
            try:
                async with httpx2.AsyncClient(base_url=api.url, timeout=60) as http:
                    client = await Client.connect(temporal.address, data_converter=converter)
                    yield Bed(temporal, redis, api, client, http, folder)
            finally:
                await api.stop()


def say(text: str) -> None:
    """Tell on standard error how far things are: standard output is for the result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def as_json(found: Any) -> str:
    """Write a result as JSON for people and programs."""
    return json.dumps(found, indent=2) + "\n"
