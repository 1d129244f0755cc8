"""Runs that ask for turns, in time that passes as fast as it can, and an API that counts them."""

import heapq
import random
from dataclasses import dataclass, field

from rate_limit_clock import Pool

Kinds = dict[str, float]


@dataclass(frozen=True)
class Sent:
    """A request that was let in."""

    at_s: float
    run: int
    asked_s: float
    counted: Kinds


@dataclass
class Load:
    """A number of runs; each waits for its turn, sends, and a little later wants to send again."""

    pool: Pool
    limits: Kinds
    seed: int
    runs: int
    tokens: float
    """Of a request's input, on average; it is estimated within a third, and output differs more."""
    late_s: float = 0.05
    """How late a run comes at most, after its time."""
    sent: list[Sent] = field(default_factory=list[Sent])
    refused: int = 0
    """Requests that the API would not have let in."""

    def __post_init__(self) -> None:
        self._levels, self._counted_s = dict(self.limits), 0.0

    async def run(self, seconds: float) -> None:
        """Let time pass."""
        self.pool.now_s, chance = 0.0, random.Random(self.seed)  # noqa: S311
        await self.pool.learn(**self._told)
        due = sorted((chance.random() * 5, run, 0, 0.0) for run in range(self.runs))
        settling: list[tuple[float, str, Kinds]] = []
        while due and due[0][0] < seconds:
            at_s, run, turn, asked_s = heapq.heappop(due)
            await self._settle(settling, at_s)
            self.pool.now_s = at_s
            who, asked_s = f"{run}.{turn}", asked_s or at_s
            estimate = self.tokens * random.Random(f"{self.seed}{who}").uniform(0.5, 1.5)  # noqa: S311
            wait_s = await self.pool.take(who, estimate)
            if wait_s > 0:
                again = at_s + wait_s + chance.random() * self.late_s
                heapq.heappush(due, (again, run, turn, asked_s))
                continue
            counted = {
                "requests": 1,
                "input": estimate * chance.uniform(0.67, 1.33),
                "output": chance.uniform(50, 350),
            }
            self.sent.append(Sent(at_s, run, asked_s, counted))
            await self._answer(self.sent[-1])
            took_s = chance.uniform(1, 8)
            heapq.heappush(settling, (at_s + took_s, who, counted))
            heapq.heappush(due, (at_s + took_s + chance.random(), run, turn + 1, 0.0))

    async def _settle(self, settling: list[tuple[float, str, Kinds]], at_s: float) -> None:
        while settling and settling[0][0] <= at_s:
            self.pool.now_s, who, counted = heapq.heappop(settling)
            await self.pool.settle(who, *counted.values())

    async def _answer(self, sent: Sent) -> None:
        """Do as an API that lets a minute's worth be saved up, and tells when little is left."""
        for kind, limit in self.limits.items():
            refilled = (sent.at_s - self._counted_s) * limit / 60
            self._levels[kind] = min(limit, self._levels[kind] + refilled)
        self._counted_s, needed = sent.at_s, sent.counted | {"output": 1}
        if any(self._levels[kind] < needed[kind] for kind in self.limits):
            self.refused += 1
            return
        for kind in self.limits:
            self._levels[kind] -= sent.counted[kind]
        if any(self._levels[kind] < 0.1 * limit for kind, limit in self.limits.items()):
            left = {f"remaining_{kind}": max(level, 0) for kind, level in self._levels.items()}
            await self.pool.learn(**self._told, **left)

    @property
    def _told(self) -> Kinds:
        return {f"limit_{kind}": limit for kind, limit in self.limits.items()}

    def fullest_minute(self, kind: str) -> float:
        """Return the most of a kind that any sixty seconds held."""
        most, held, first = 0.0, 0.0, 0
        for sent in self.sent:
            held += sent.counted[kind]
            while self.sent[first].at_s <= sent.at_s - 60:
                held -= self.sent[first].counted[kind]
                first += 1
            most = max(most, held)
        return most

    def used(self, kind: str, seconds: float) -> float:
        """Return the part of the limit that was used after the first minute."""
        counted = sum(sent.counted[kind] for sent in self.sent if sent.at_s >= 60)
        return counted / (self.limits[kind] * (seconds - 60) / 60)
