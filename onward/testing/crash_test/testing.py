"""The crash test itself: one call without a fault, then one trial for each fault of the plan."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onward.errors import UsageError
from onward.failpoints import POINTS
from onward.testing.crash_test.faults import NO_FAULT, Fault
from onward.testing.crash_test.plan import plan, unreached
from onward.testing.crash_test.probe import ProbeFunction
from onward.testing.crash_test.report import CrashReport, report_of
from onward.testing.crash_test.servers import Servers, servers
from onward.testing.crash_test.subject import Subject, subject
from onward.testing.crash_test.trial import Outcome, trial
from onward.testing.crash_test.unique import new_unique
from onward.tools import Tool

BESIDE = 3
"""Trials at a time: they mostly wait for a lease to run out."""

Progress = Callable[[int, int], None]
"""Called with how many trials are done, and of how many."""


async def crash_test(
    tool: Tool[..., Any] | str,
    *,
    input: Mapping[str, Any],  # noqa: A002  (it is the tool's input, here as everywhere)
    probe: ProbeFunction | str,
    points: Collection[str] = tuple(POINTS),
    progress: Progress = lambda _done, _all: None,
) -> CrashReport:
    """Test whether a tool keeps the promise of its effect class, whenever its worker dies.

    Takes one to four minutes. Workers are processes: they import the tool's module anew, have this
    process's environment and folder, and need the extra `local`. Call it from a test, or below
    `if __name__ == "__main__":`.

    Args:
        tool: the tool, or `"module:name"`.
        input: what Claude asks with. `{unique}` in any string becomes another word in every trial.
        probe: counts the effects that an input had: a function of the input (sync or async), or
            `"module:function"`; a URL that answers a number; a shell command that prints one. In
            the latter two `{unique}` is replaced as in the input.
        points: `f1` to `f12`; by default all.
        progress: called after every trial.

    Raises:
        UsageError: tool, input, probe or points cannot be used; nothing was started, except where
            the probe's answer is no number.
        ProcessFailed: a worker or a server did not start.

    """
    tested = subject(tool, input, probe)
    refuse_points(points)
    async with servers() as running:
        return await try_all(running, tested, points, progress)


def refuse_points(points: Collection[str]) -> None:
    """Raise UsageError for a point that there is none of."""
    if unknown := [point for point in points if point not in POINTS]:
        raise UsageError(f"no point is named {unknown[0]!r}; there are {', '.join(POINTS)}")


async def try_all(
    running: Servers, tested: Subject, points: Collection[str], progress: Progress
) -> CrashReport:
    """Try a tool with the faults of these points, on servers that run already."""
    base, counts_all = await without_fault(running, tested)
    report = report_of(tested.spec, tested.effect, [base])
    if not report.held:  # struck, it would only show the same again
        return report
    faults = plan(base.recording, points)
    outcomes = await _try(running, tested, faults, 1 if counts_all else BESIDE, progress)
    report = report_of(tested.spec, tested.effect, [base, *outcomes])
    return replace(report, unreached=tuple(p for p in unreached(base.recording) if p in points))


async def without_fault(running: Servers, tested: Subject) -> tuple[Outcome, bool]:
    """Try no fault; say also whether the probe counts other inputs than the one it is asked of."""
    other = new_unique()
    before = await tested.probe.count(tested.given(other), other)
    outcome = await trial(running, tested, NO_FAULT)
    return outcome, await tested.probe.count(tested.given(other), other) != before


async def _try(
    running: Servers, tested: Subject, faults: Sequence[Fault], beside: int, progress: Progress
) -> list[Outcome]:
    free, done = asyncio.Semaphore(beside), 0

    async def one(fault: Fault) -> Outcome:
        nonlocal done
        async with free:
            outcome = await trial(running, tested, fault)
        done += 1
        progress(done, len(faults))
        return outcome

    progress(0, len(faults))
    tasks = [asyncio.ensure_future(one(fault)) for fault in faults]
    try:
        return await asyncio.gather(*tasks)
    finally:  # no TaskGroup: it would wrap a probe's UsageError into a group
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
