"""What there is at a moment: memory, files and threads of each process, keys, runs, backlog."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil
from redis.asyncio import Redis
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from chaos.soak.stage import Stage
from onward.names import TASK_QUEUE
from onward.redis_server.keys import is_left_behind, kind_of

_MB = 1e6
_ROUND = 500
_MARGIN_MS = 24 * 3600 * 1000
_GONE = -2
"""PTTL of a key that expired since it was scanned."""
_QUEUES = (
    TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
)
_OF_A_RUN = {"run", "result"}
# A run's records outlive Temporal's own by a day. Nobody waits for that here, so it is taken off;
# in one step, since the ledger may take the expiry back between two.
_A_DAY_LATER = """
for _, key in ipairs(KEYS) do
  local ttl = redis.call('PTTL', key)
  if ttl > tonumber(ARGV[1]) then redis.call('PEXPIRE', key, ttl - tonumber(ARGV[1])) end
end
"""


@dataclass(frozen=True)
class Process:
    """One process at a moment."""

    rss_mb: float
    files: int
    threads: int
    cpu_s: float


@dataclass(frozen=True)
class Keys:
    """The keys in Redis, by kind."""

    expiring: Mapping[str, int]
    staying: Mapping[str, int]
    """Without an expiry."""
    left_behind: tuple[str, ...]
    """Those that should have one, or that are of no kind."""


@dataclass(frozen=True)
class Sample:
    """Everything at a moment."""

    at_s: float
    processes: Mapping[str, Process]
    """By name; one that has just been killed is missing."""
    redis_mb: float
    """What Redis itself says that it uses."""
    keys: Keys
    open_runs: int
    known_runs: int
    """Those that have ended and that Temporal still knows."""
    backlog: int
    """Tasks that no worker has taken."""
    temporal_db_mb: float
    payload_files: int


class Sampler:
    """Takes samples, and keeps them."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._began_s = stage, time.monotonic()
        self.samples = list[Sample]()

    async def go_on(self, every_s: float) -> None:
        """Take a sample again and again, until cancelled."""
        while True:
            self.samples.append(await self.take())
            await asyncio.sleep(every_s)

    async def take(self) -> Sample:
        """Take one sample."""
        stage = self._stage
        await _a_day_later(stage.redis)
        info = await cast("Any", stage.redis).info("memory")
        return Sample(
            at_s=round(time.monotonic() - self._began_s, 1),
            processes=_processes(stage.pids),
            redis_mb=round(info["used_memory"] / _MB, 2),
            keys=await _keys(stage.redis),
            open_runs=await _runs(stage.temporal, "="),
            known_runs=await _runs(stage.temporal, "!="),
            backlog=await _backlog(stage.temporal),
            temporal_db_mb=_size_mb(stage.folder / "temporal"),
            payload_files=sum(file.is_file() for file in stage.folder.glob("payloads/**/*")),
        )


def _processes(pids: Mapping[str, int]) -> dict[str, Process]:
    seen = ((name, _process(pid)) for name, pid in pids.items())
    return {name: process for name, process in seen if process}


def _process(pid: int) -> Process | None:
    process = psutil.Process(pid) if psutil.pid_exists(pid) else None
    try:
        if process is None or process.status() == psutil.STATUS_ZOMBIE:
            return None
        with process.oneshot():
            times: Any = process.cpu_times()
            rss_mb = round(process.memory_info().rss / _MB, 1)
            cpu_s = round(float(times.user + times.system), 2)
            return Process(rss_mb, process.num_fds(), process.num_threads(), cpu_s)
    except psutil.Error:
        return None


async def _scanned(redis: Redis) -> AsyncIterator[list[str]]:
    cursor, done = 0, False
    while not done:
        cursor, keys = await cast("Any", redis).scan(cursor, count=_ROUND)
        done = cursor == 0
        yield [key.decode() for key in keys]


async def _keys(redis: Redis) -> Keys:
    found: dict[str, bool] = {}
    async for keys in _scanned(redis):
        pipe = cast("Any", redis.pipeline(transaction=False))
        for key in keys:
            pipe.pttl(key)
        ttls = await pipe.execute()
        found |= {key: ttl >= 0 for key, ttl in zip(keys, ttls, strict=True) if ttl != _GONE}
    expiring = Counter(_name(key) for key, expires in found.items() if expires)
    staying = Counter(_name(key) for key, expires in found.items() if not expires)
    behind = (key for key, expires in found.items() if is_left_behind(key, expires=expires))
    return Keys(expiring, staying, tuple(sorted(behind)))


def _name(key: str) -> str:
    kind = kind_of(key)
    return kind.name if kind else "of no kind"


async def _a_day_later(redis: Redis) -> None:
    script: Any = redis.register_script(_A_DAY_LATER)
    async for keys in _scanned(redis):
        await script(keys=[key for key in keys if _name(key) in _OF_A_RUN], args=[_MARGIN_MS])


async def _runs(client: Client, sign: str) -> int:
    return (await client.count_workflows(f"ExecutionStatus {sign} 'Running'")).count


async def _backlog(client: Client) -> int:
    return sum([await _waiting(client, kind) for kind in _QUEUES])


async def _waiting(client: Client, kind: TaskQueueType.ValueType) -> int:
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=TASK_QUEUE),
        task_queue_type=kind,
        report_stats=True,
    )
    answer = await client.workflow_service.describe_task_queue(asked)
    return answer.stats.approximate_backlog_count


def _size_mb(folder: Path) -> float:
    return round(sum(file.stat().st_size for file in folder.glob("*.db*")) / _MB, 1)
