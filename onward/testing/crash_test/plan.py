"""Which faults a tool is tried with, planned from a call of it without any."""

import random
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from onward.failpoints import POINTS
from onward.testing.crash_test.faults import Action, Fault
from onward.testing.crash_test.recording import Line, Recording, Request

AT_REQUESTS = ("f5", "f6", "f7")
_ACTIONS: tuple[Action, ...] = ("kill", "pause", "cut")
_REQUESTS = 3
_LINES = 30
"""So many that a usual tool is killed before each of its lines: between just two of them may lie
what is wrong with it."""
_PAUSED_LINES, _MOMENTS = 3, 3

T = TypeVar("T")


def unreached(recording: Recording) -> tuple[str, ...]:
    """Points that the call did not pass: those in its requests, where it made none that we see."""
    return () if recording.requests else AT_REQUESTS


def plan(recording: Recording, points: Collection[str]) -> list[Fault]:
    """Return the faults of `points` (`f1` to `f12`), in the order in which a call passes them.

    A tool whose requests pass no socket of Python's is struck between its lines and at random
    moments instead (of a fixed seed, so that a second test is the same one).
    """
    faults = [fault for point in POINTS if point in points for fault in _at(point, recording)]
    if set(points) & set(unreached(recording)):
        faults += _between_lines(recording.lines)
        faults += _at_moments(recording.took_s)
    return faults


def _at(point: str, recording: Recording) -> Iterator[Fault]:
    if point in AT_REQUESTS:
        for number, request in enumerate(recording.requests[:_REQUESTS], start=1):
            yield from _at_request(point, number, request)
        return
    yield Fault(action="kill", point=point)
    if point == "f4":
        yield Fault(action="pause", point=point)


def _at_request(point: str, number: int, request: Request) -> Iterator[Fault]:
    passes = {"f5": request.last_send, "f6": request.asked, "f7": request.replied}
    if nth := passes[point]:
        # After the reply a broken connection harms nobody, and a zombie has nothing left to send.
        actions = _ACTIONS[:1] if point == "f7" else _ACTIONS
        for action in actions:
            yield Fault(action=action, point=point, nth=nth, request=number)


def _between_lines(lines: Sequence[Line]) -> Iterator[Fault]:
    for line in _spread(lines, _LINES):
        yield Fault(action="kill", point="line", line=line)
    for line in _spread(lines, _PAUSED_LINES):
        yield Fault(action="pause", point="line", line=line)


def _at_moments(took_s: float) -> Iterator[Fault]:
    for seed in range(_MOMENTS):
        part = (seed + random.Random(seed).random()) / _MOMENTS  # noqa: S311  (no secret)
        yield Fault(action="kill", point="moment", after_s=took_s * part)


def _spread(items: Sequence[T], most: int) -> list[T]:
    """Choose at most so many, evenly, the last one always among them."""
    if len(items) <= most:
        return list(items)
    return [items[(number + 1) * len(items) // most - 1] for number in range(most)]
