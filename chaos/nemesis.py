"""Strikes as planned, and writes down what struck when."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from redis.asyncio import Redis

from chaos.crew import Crew
from chaos.plan import Fault
from chaos.proxy import Proxy
from onward.local_services import RedisServer, TemporalServer


@dataclass(frozen=True)
class Struck:
    """A fault that struck."""

    fault: Fault
    began_s: float
    """By the monotonic clock, since the beginning; as planned, where nothing was in its way."""
    began: float
    """Unix seconds, to compare with the times in Temporal's histories."""
    ended: float
    """When everything was in its place again, Unix seconds."""


@dataclass(frozen=True)
class Targets:
    """What can be hit."""

    crew: Crew
    redis: RedisServer
    temporal: TemporalServer
    proxies: Mapping[str, Proxy]


class Nemesis:
    """Strikes the targets; `log` gets a line of JSON for each fault, when it is over."""

    def __init__(self, targets: Targets, log: Path) -> None:
        self._targets, self._log = targets, log
        self._began_s = time.monotonic()
        # Two faults of one server, or of one proxy, strike one after the other.
        self._turns = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self.struck = list[Struck]()

    async def strike(self, plan: Sequence[Fault]) -> None:
        """Carry the plan out; returns when the last fault is over."""
        self._began_s = time.monotonic()
        async with asyncio.TaskGroup() as striking:
            for fault in plan:
                await asyncio.sleep(self._began_s + fault.at_s - time.monotonic())
                striking.create_task(self._strike(fault))

    async def _strike(self, fault: Fault) -> None:
        match fault.kind, fault.target:
            case "kill", "redis":
                await self._kill(fault, self._targets.redis)
            case "kill", "temporal":
                await self._kill(fault, self._targets.temporal)
            case "flush", _:
                await self._flush(fault)
            case "kill", worker:
                async with self._noted(fault):
                    self._targets.crew.kill(_place(worker))
            case "stop", worker:
                async with self._noted(fault):
                    await self._targets.crew.pause(_place(worker), fault.for_s)
            case _:
                await self._trouble(fault)

    async def _kill(self, fault: Fault, server: RedisServer | TemporalServer) -> None:
        async with self._turns[fault.target], self._noted(fault):
            await server.kill()
            await asyncio.sleep(fault.for_s)
            await server.start()

    async def _trouble(self, fault: Fault) -> None:
        proxy = self._targets.proxies[fault.target]
        async with self._turns[f"proxy {fault.target}"], self._noted(fault), proxy.trouble(fault):
            await asyncio.sleep(fault.for_s)

    async def _flush(self, fault: Fault) -> None:
        client = Redis.from_url(self._targets.redis.url)  # pyright: ignore[reportUnknownMemberType]
        async with self._turns["redis"], client as redis, self._noted(fault):
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]

    @asynccontextmanager
    async def _noted(self, fault: Fault) -> AsyncGenerator[None]:
        began_s, began = time.monotonic() - self._began_s, time.time()
        yield
        struck = Struck(fault, round(began_s, 3), began, time.time())
        self.struck.append(struck)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(struck)) + "\n")


def _place(worker: str) -> int:
    return int(worker.removeprefix("worker "))
