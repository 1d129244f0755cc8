"""The plan of faults: from the seed alone, so that a run that failed can be repeated.

What the faults hit when they strike is the machine's choice. The plan is the same each time, the
moment inside a request is not: a failing seed may need some tries.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

Kind = Literal["kill", "stop", "flush", "delay", "cut", "swallow"]
"""SIGKILL; SIGSTOP past its lease, then SIGCONT; FLUSHALL. The others are the proxy's: chunks come
late; half a chunk comes, then the connection is cut; what was asked is done and no answer comes."""
Side = Literal["request", "reply"]

_GAP_S = (0.5, 2.5)
_FIRST_S = 1.0
"""So that there is something to hit."""
_DOWN_S, _PAUSE_S, _TROUBLE_S, _DELAY_S = (0.0, 1.5), (4.0, 9.0), (0.2, 1.5), (0.05, 0.5)
# Drawn from like a bag, so that a short run has every kind too.
_BAG: tuple[tuple[Kind, str], ...] = (
    ("kill", "worker"),
    ("kill", "worker"),
    ("kill", "worker"),
    ("stop", "worker"),
    ("stop", "worker"),
    ("kill", "redis"),
    ("kill", "temporal"),
    ("flush", "redis"),
    ("delay", "redis"),
    ("cut", "redis"),
    ("swallow", "redis"),
    ("delay", "payments"),
    ("cut", "payments"),
    ("swallow", "payments"),
)


@dataclass(frozen=True)
class Fault:
    """One planned fault."""

    at_s: float
    """Seconds after the beginning."""
    kind: Kind
    target: str
    """`worker 2`, `redis`, `temporal`, `payments`."""
    for_s: float = 0.0
    """How long it lasts: paused, away, or in the proxy; a killed worker is replaced at once."""
    delay_s: float = 0.0
    """Of `delay`: how late each chunk comes."""
    side: Side = "request"
    """Of `cut`: which way the chunk went."""

    def __str__(self) -> str:
        """Write it in one line."""
        lasts = f" for {self.for_s:.1f} s" if self.for_s else ""
        late = f", {self.delay_s:.2f} s a chunk" if self.kind == "delay" else ""
        way = f", in a {self.side}" if self.kind == "cut" else ""
        return f"{self.kind} {self.target}{lasts}{late}{way}"


def plan(seed: int, *, seconds: float, workers: int) -> list[Fault]:
    """Make the faults of the first `seconds`; a longer plan of the seed begins with a shorter."""
    return list(takewhile(lambda fault: fault.at_s < seconds, _faults(seed, workers)))


def _faults(seed: int, workers: int) -> Iterator[Fault]:
    drawn = random.Random(f"faults {seed}")  # noqa: S311  (to be repeated, not secret)
    at_s = _FIRST_S
    while True:
        for kind, target in drawn.sample(_BAG, len(_BAG)):
            yield _fault(drawn, round(at_s, 3), kind, target, workers)
            at_s += drawn.uniform(*_GAP_S)


def _fault(drawn: random.Random, at_s: float, kind: Kind, target: str, workers: int) -> Fault:
    def some(span: tuple[float, float]) -> float:
        return round(drawn.uniform(*span), 3)

    worker = target == "worker"
    if worker:
        target = f"worker {drawn.randrange(workers) + 1}"
    match kind:
        case "kill":
            return Fault(at_s, kind, target, for_s=0.0 if worker else some(_DOWN_S))
        case "stop":
            return Fault(at_s, kind, target, for_s=some(_PAUSE_S))
        case "flush":
            return Fault(at_s, kind, target)
        case "delay":
            return Fault(at_s, kind, target, for_s=some(_TROUBLE_S), delay_s=some(_DELAY_S))
        case "cut":
            side: Side = drawn.choice(("request", "reply"))
            return Fault(at_s, kind, target, for_s=some(_TROUBLE_S), side=side)
        case "swallow":
            return Fault(at_s, kind, target, for_s=some(_TROUBLE_S))
