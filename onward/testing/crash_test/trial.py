"""One trial: one call of the tool, one fault, and what became of it."""

import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

from onward.managed_process import ProcessFailed, wait_until
from onward.names import CALL_CLAUDE
from onward.testing.crash_test import recording
from onward.testing.crash_test.faults import Fault
from onward.testing.crash_test.recording import Recording
from onward.testing.crash_test.scripted_run import Answer, answer
from onward.testing.crash_test.servers import Servers, Workplace
from onward.testing.crash_test.subject import Subject
from onward.testing.crash_test.unique import new_unique
from onward.testing.crash_test.worker_main import settled
from onward.testing.warm import WarmWorker

_SUCCESSOR_S = 10.0
"""How long a paused worker stays so for its successor, which cannot act at all where it needs a
lock that the paused one holds in a database."""
_ZOMBIE_S = 20.0
_LEAST_S = 90.0
_STRUCK_S = 3600.0
"""The run itself has a deadline, and its end ends this wait."""


@dataclass(frozen=True)
class Outcome:
    """What became of one trial."""

    fault: Fault
    struck: bool
    """False: the call came to its end without passing the point."""
    effects: int
    answer: Answer
    took_s: float
    recording: Recording


async def trial(servers: Servers, subject: Subject, fault: Fault) -> Outcome:
    """Try one fault, on an input of its own.

    Raises UsageError for a probe that fails, ProcessFailed for a worker that does.
    """
    began, unique = time.monotonic(), new_unique()
    given = subject.given(unique)
    before = await subject.probe.count(given, unique)
    place = Workplace(servers, subject)
    deadline_s = _LEAST_S + subject.tool.options.longest_s
    asking = answer(servers, place.queue, subject.tool.name, given, deadline_s)
    struck, told = await _struck_run(place, fault, asyncio.ensure_future(asking))
    return Outcome(
        fault=fault,
        struck=struck,
        effects=await subject.probe.settled(given, unique) - before,
        answer=told,
        took_s=time.monotonic() - began,
        recording=recording.read(place.recording("first")),
    )


async def _struck_run(
    place: Workplace, fault: Fault, run: "asyncio.Future[Answer]"
) -> tuple[bool, Answer]:
    """Let a worker suffer the fault and another go on; say whether it did, and how it ended."""
    try:
        async with place.worker("first", fault.env) as first:
            match await _state(first, run):
                case "killed":
                    async with place.worker("second", {}):
                        return True, await run
                case "paused":
                    async with place.worker("second", {}):
                        return True, await _zombie_wakes(place, first, run)
                case _ if fault.point == "f12":
                    await first.killed()  # it lies a moment later, and the run may end before
                    return True, await run
                case _:
                    return fault.action in {"none", "cut"}, await run
    finally:
        run.cancel()


async def _state(worker: WarmWorker, run: "asyncio.Future[Answer]") -> str:
    """Wait until the fault has struck, or the run has ended without it."""

    def state() -> str:
        if worker.returncode is not None:
            return "killed" if worker.returncode == -signal.SIGKILL else "ended"
        if _is_stopped(worker):
            return "paused"
        return "done" if run.done() else ""

    found = await wait_until(state, _STRUCK_S, what="the fault")
    if found == "ended":
        raise ProcessFailed(f"a worker ended by itself with {worker.returncode}: {worker.tail()}")
    return found


def _is_stopped(worker: WarmWorker) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
    return False


async def _zombie_wakes(
    place: Workplace, zombie: WarmWorker, run: "asyncio.Future[Answer]"
) -> Answer:
    """Wake a paused worker after its successor has acted, and let it do what it wants."""
    await asyncio.wait([run], timeout=_SUCCESSOR_S)
    zombie.resume()
    told = await run
    with suppress(ProcessFailed):  # a tool that hangs: its worker's end will be its end
        await zombie.until(lambda: _is_done(place, zombie), _ZOMBIE_S, what="the zombie's end")
    return told


def _is_done(place: Workplace, zombie: WarmWorker) -> bool:
    """Its attempt is over, and so is the tool: a sync one goes on when its attempt is cancelled."""
    tool = place.subject.tool
    # A read is part of the step that asks for it.
    attempt_over = settled(CALL_CLAUDE if tool.effect == "read" else tool.name) in zombie.output()
    return attempt_over and recording.idle(place.recording("first"))
