"""Cancels at random moments of runs that act at each step, and continue as new all the time."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, says, uses
from cancel_trial import end_of, go_on
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner

from onward import tool
from onward.messages import RunResult
from onward.testing import wait_until

pytestmark = [pytest.mark.cancel, pytest.mark.timeout(240)]
RUNS, STEPS, WITHIN_S = 12, 30, 3.0
EVERY_OTHER_STEP = 24
"""Events after which a run continues as new."""
CHEAP: dict[str, Any] = {
    "unsandboxed_workflow_runner": UnsandboxedWorkflowRunner(),
    "max_cached_workflows": 100,
}


async def test_a_cancel_at_any_time_ends_a_run_cleanly(bench: Bench) -> None:
    """What began is done once and told so, nothing begins after, all is counted, forks go on.

    A second cancel, in whichever way, does no harm.
    """
    acted, seed = Counter[str](), random.getrandbits(32)
    chance = random.Random(seed)  # noqa: S311

    @tool(effect="keyed")
    async def act(what: str) -> str:
        """Act."""
        acted[what] += 1
        await asyncio.sleep(0.05)
        return f"did {what}"

    async def cancelled(number: int) -> tuple[Run, RunResult]:
        steps = [uses(("act", {"what": f"{seed}-{number}-{n}"})) for n in range(STEPS)]
        run = await bench.start(*steps, says())
        await wait_until(lambda: len(run.requests) > 1, 30, what="a finished step")
        await asyncio.sleep(chance.uniform(0, WITHIN_S))
        for by_signal in (chance.random() < 0.5, chance.random() < 0.5):
            with suppress(RPCError):  # it has ended
                await (run.handle.signal("cancel") if by_signal else run.handle.cancel())
        return run, await end_of(run)

    bench = replace(bench, history_events=EVERY_OTHER_STEP)
    async with bench.worker(app_of(act), **CHEAP):
        ends = await asyncio.gather(*map(cancelled, range(RUNS)))
        told = dict(acted)
        wrong = [p for run, result in ends for p in await problems(run, result)]
    assert not wrong, f"seed {seed}: {wrong}"
    assert {*acted.values()} == {1}, f"seed {seed}"
    assert acted == told, "a fork repeats nothing"


async def problems(run: Run, result: RunResult) -> list[str]:
    """Say what is not as it must be; a fork asks Claude's side, which checks the transcript."""
    asked, counted = len(run.requests), result.spend.requests
    right = result.outcome == "cancelled" and not result.in_doubt and counted == asked
    found = (
        f"{run.name}: {result.outcome}, {result.in_doubt} in doubt, {counted} of {asked} counted"
    )
    await go_on(run)
    broken = [name for entry in run.requests for name in entry.violations]
    return broken if right else [found, *broken]
