"""SIGKILL at each of the ledger's twelve points, for each effect class (ledger.md, 1.5).

The verdict comes from the payments service's own books and the run's result, nothing else.
"""

import asyncio
import uuid

import pytest
from agent_runs import says, uses
from crash_runs import CrashBench

from onward.failpoints import POINTS

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

TOOLS = {"read": "look_up", "keyed": "refund", "at_most_once": "pay_out"}
# Where an `at_most_once` call is killed after its claim and before its record, nobody can know
# whether it happened, so it is in doubt; the books say that it did happen from f6 on.
IN_DOUBT = {"f2": 0, "f3": 0, "f4": 0, "f5": 0, "f6": 1, "f7": 1, "f8": 1}


@pytest.mark.field("D06")
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_never_repeats_an_effect(crash_bench: CrashBench, point: str) -> None:
    """The effect happened once, or is in doubt and happened at most once; no needless doubt.

    One trial for each class, beside each other.
    """
    await asyncio.gather(*(_trial(crash_bench.another(), point, effect) for effect in TOOLS))


async def _trial(bench: CrashBench, point: str, effect: str) -> None:
    order = f"{point}-{effect}-{uuid.uuid4().hex[:8]}"
    async with bench.worker(FP=f"{point}:1:kill") as worker:
        run = await bench.bench.start(uses((TOOLS[effect], {"order": order})), says())
        await worker.killed()
    async with bench.worker():
        result = await run.ended()

    doubtful = effect == "at_most_once" and point in IN_DOUBT
    assert result.outcome == "completed"
    assert result.in_doubt == (("1.1",) if doubtful else ())
    assert ("OUTCOME UNKNOWN" in run.requests[-1].body) == doubtful
    if effect != "read":
        assert bench.effects(order) == (IN_DOUBT[point] if doubtful else 1)
    if effect == "at_most_once":
        assert bench.arrivals(order) <= 1
