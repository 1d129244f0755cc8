"""The points of the cancel matrix, and how a run that is cancelled there must end."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from agent_runs import Run, uses
from cancel_app import HISTORY_EVENTS, LONG_S, at
from people import waiting

from onward.testing import PaymentsProcess, WorkerProcess, wait_until
from onward.testing.messages_api import Fault, Step

DEADLINE_S = 90.0
"""For what takes a second on a machine with time."""
MODELS = cycle(("claude-haiku-5-5", "claude-opus-5-5", "claude-sonnet-5", "claude-opus-4-6"))
"""Each run that meets a rate limit has a model of its own: its wait is that of its pool."""
USED = {"input_tokens": 10_000, "output_tokens": 300}

Told = Literal["nothing", "done", "in_doubt", "not_run", "read"]
"""What a fork tells Claude of the call that was cancelled; `nothing`: the step asked for none."""


@dataclass(frozen=True)
class Stage:
    """What is there when a run comes to its point."""

    run: Run
    worker: WorkerProcess
    payments: PaymentsProcess
    order: str

    def arrived(self) -> bool:
        """Say whether a request for the order has reached the payments service."""
        return any(self.order in request.body for request in self.payments.requests())

    def effects(self) -> int:
        """Count the refunds of the order."""
        return sum(effect.order == self.order for effect in self.payments.effects())

    async def logged(self, point: str) -> None:
        """Wait until the worker says that the run is at a point."""
        await self.worker.logged(at(point, self.run.name), DEADLINE_S)


Reached = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Ends:
    """What must be true of a run that was cancelled at a point."""

    told: Told = "nothing"
    effects: frozenset[int] = frozenset({0})
    within_s: float = 3.0
    """Median of the time to its end, on a busy machine."""


@dataclass(frozen=True)
class Point:
    """A moment of a run's second step."""

    name: str
    step: Callable[[str, bool], Step]
    """Makes the step of an order; the flag: what it does takes for ever, and its worker dies."""
    reached: Reached
    alive: Ends
    killed: Ends
    held: str = ""
    """Where `cancel_app` holds the run."""
    first_steps: int = 1
    """Ordinary ones before that step."""
    own_model: bool = False

    def __str__(self) -> str:
        return self.name


def _plain(**fields: object) -> Callable[[str, bool], Step]:
    step = Step.model_validate({"content": [{"type": "text", "text": "Done."}], **fields})
    return lambda _order, _killed: step


def _read(tool: str) -> Callable[[str, bool], Step]:
    return lambda _order, _killed: uses((tool, {}))


def _effect(tool: str, before: str = "", trouble: str = "") -> Callable[[str, bool], Step]:
    """Make a call that takes a second, or for ever, before it fires or at the other side."""

    def step(order: str, killed: bool) -> Step:
        seconds = LONG_S if killed else 1.0
        given = {"order": order} | ({"before_s": seconds} if before else {})
        given |= {"trouble": f"{trouble}={seconds:g}"} if trouble else {}
        return uses((tool, given))

    return step


def _held_up(why: str) -> Reached:
    async def reached(stage: Stage) -> None:
        async def told() -> bool:
            return why in await stage.run.failing_activity()

        await wait_until(told, DEADLINE_S, what=f"an attempt that fails with {why!r}")

    return reached


def _at(point: str) -> Reached:
    return lambda stage: stage.logged(point)


async def _asked(stage: Stage) -> None:
    await wait_until(lambda: len(stage.run.requests) == 2, DEADLINE_S, what="the request")


async def _streaming(stage: Stage) -> None:
    ledger = stage.run.bench.ledger(stage.run)

    async def told() -> bool:
        return any(each["usage"] for each in (await ledger.usages("2")).values())

    await wait_until(told, DEADLINE_S, what="the stream telling what it uses")


async def _sent(stage: Stage) -> None:
    await wait_until(stage.arrived, DEADLINE_S, what="the tool's request")


async def _happened(stage: Stage) -> None:
    await wait_until(lambda: stage.effects() == 1, DEADLINE_S, what="the effect")


async def _waits(stage: Stage) -> None:
    await waiting(stage.run)


_DONE = Ends("done", frozenset({1}), within_s=5.0)
_UNSENT, _SENT = Ends("in_doubt", frozenset({0})), Ends("in_doubt", frozenset({0, 1}))
_HAPPENED = Ends("in_doubt", frozenset({1}))
_SILENT = Fault(hold_s=LONG_S)
_NOTHING, _NOT_RUN, _READ = Ends(), Ends("not_run"), Ends("read")


def _effects(tool: str) -> list[Point]:
    return [
        Point(f"{tool} before", _effect(tool, before="yes"), _at("effect"), _DONE, _UNSENT),
        Point(f"{tool} during", _effect(tool, trouble="delay_s"), _sent, _DONE, _SENT),
        Point(f"{tool} after", _effect(tool, trouble="delay_after_s"), _happened, _DONE, _HAPPENED),
    ]


POINTS = [
    Point("before the call", _plain(), _at("claim"), _NOTHING, _NOTHING, held="claim"),
    Point("before the first byte", _plain(faults=[_SILENT]), _asked, _NOTHING, _NOTHING),
    Point(
        "in mid-stream",
        _plain(usage=USED, faults=[Fault(stall_s=LONG_S)]),
        _streaming,
        _NOTHING,
        _NOTHING,
    ),
    Point(
        "between call and tools",
        _effect("refund"),
        _at("recorded"),
        _NOTHING,
        _NOTHING,
        held="recorded",
    ),
    # The reply that asks for a read is in history with its result: a death loses both.
    Point("in a read", _read("look"), _at("look"), _READ, _NOTHING),
    Point("in a read that blocks", _read("stare"), _at("stare"), _READ, _READ),
    *_effects("refund"),
    *_effects("pay_out"),
    Point("at an approval", _effect("refund_when_approved"), _waits, _NOT_RUN, _NOT_RUN),
    Point(
        "rate-limited",
        _plain(faults=[Fault(status=429, retry_after=LONG_S)]),
        _held_up("429"),
        _NOTHING,
        _NOTHING,
        own_model=True,
    ),
    Point(
        "in an outage",
        _plain(faults=[Fault(status=529, retry_after=LONG_S)]),
        _held_up("529"),
        _NOTHING,
        _NOTHING,
    ),
    Point(
        "continuing as new",
        _plain(),
        _at("carry"),
        _NOTHING,
        _NOTHING,
        held="carry",
        first_steps=HISTORY_EVENTS // 5,
    ),
]
