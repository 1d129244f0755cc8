"""Whole runs of several workers against an API that keeps its own rate limits."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from statistics import fmean
from typing import Any

from agent_runs import MODEL, Bench, Run, app_of, says, uses
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner

from onward import Agent, App, claude, tool
from onward.rates import Rates
from onward.testing import wait_until
from onward.testing.messages_api import Entry, Fault, ScriptedAPI

OTHER_MODEL = "claude-haiku-5-5"
CHEAP: dict[str, Any] = {
    "unsandboxed_workflow_runner": UnsandboxedWorkflowRunner(),
    "max_cached_workflows": 100,
}
"""Of a worker: what only a test of the workflow itself needs costs most of the time here."""


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@asynccontextmanager
async def limited(bench: Bench, **rates: float) -> AsyncGenerator[Bench]:
    """Lay out the bench with an API that keeps these limits for the tests' model."""
    async with ScriptedAPI({}, rate_limits={MODEL: Rates(**rates)}) as api:
        yield replace(bench, api=api)


async def another(bench: Bench, **changes: Any) -> Bench:
    """Lay out the same bench for a worker beside the first one, with clients of its own."""
    config = bench.temporal.service_client.config
    converter = bench.temporal.data_converter
    temporal = await Client.connect(config.target_host, data_converter=converter)
    return replace(bench, temporal=temporal, **changes)


def statuses(bench: Bench) -> set[int | None]:
    """Return how the API answered."""
    return {entry.status for entry in bench.api.journal}


async def test_two_workers_use_95_percent_of_the_rate(bench: Bench) -> None:
    """No 429, and at least 95 % of what is allowed, over both of them.

    Saved up is only what a busy machine may be late with: requests that come at once then.
    """
    app, rpm = app_of(look), 240
    async with limited(bench, requests=rpm) as first:
        second = await another(first)
        first.api.rates.drain(leaving_s=4)
        async with first.worker(app, **CHEAP), second.worker(app, **CHEAP):
            steps = [uses(("look", {}))] * 10
            runs = [await first.start(*steps, says()) for _ in range(6)]
            await asyncio.gather(*(run.ended() for run in runs))
    assert statuses(first) == {200}
    # Means of ten: one that the machine is late with says nothing of the rate.
    head, tail = ([entry.t for entry in part] for part in (steady(first)[:10], steady(first)[-10:]))
    between = len(steady(first)) - 10
    assert 0.95 * rpm <= between * 60 / (fmean(tail) - fmean(head)) <= rpm


def steady(bench: Bench) -> Sequence[Entry]:
    """Return the requests but those of the beginning, when little is known, and of the end."""
    return bench.api.journal[16:-6]


async def test_who_waits_holds_nothing_and_is_served_in_turn(bench: Bench) -> None:
    """No slot, no claim, no request counted; status says what it waits for, and until when."""
    app = App(*(Agent(name, model=name, tools=[look]) for name in (MODEL, OTHER_MODEL)))
    async with limited(bench, requests=12) as only, only.worker(app, max_concurrent_activities=1):
        for _ in "ab":  # from the first answer the limit is learned, the second is charged to it
            await (await only.start(says(), agent=MODEL)).ended()
        waiting = [await _waiting(only) for _ in "ab"]
        busy = await only.start(*[uses(("look", {}))] * 3, says(), agent=OTHER_MODEL)
        assert (await busy.ended()).outcome == "completed"
        assert [run.requests for run in waiting] == [[], []]
        for run in waiting:
            assert (await run.ended()).spend.requests == 1
    assert waiting[0].requests[0].t < waiting[1].requests[0].t
    assert statuses(only) == {200}


async def _waiting(bench: Bench) -> Run:
    """Start a run and return it when it waits for its turn, and holds nothing meanwhile."""
    run = await bench.start(says(), agent=MODEL)
    await wait_until(run.failing_activity, 30, what="the run waiting")
    said = await run.failing_activity()
    assert f"UTC for its share of {MODEL}'s 12 requests per minute" in said
    redis: Any = bench.redis
    record = json.loads(await redis.hget(bench.ledger(run).key, "s:1"))
    assert (record["st"], record["n"]) == ("open", 0)
    return run


async def test_a_429_that_one_worker_sees_slows_the_other(bench: Bench) -> None:
    """Who hears `retry-after` tells all: nobody else asks before that, nor is refused for it."""
    other = await another(bench, queue=f"{bench.queue}-other")
    async with bench.worker(app_of()), other.worker(app_of()):
        refused = await bench.start(says(faults=[Fault(status=429, retry_after=2)]))
        await wait_until(refused.failing_activity, 30, what="the 429")
        later = await other.start(says())
        await asyncio.gather(refused.ended(), later.ended())
    heard, again, first = *refused.requests, *later.requests
    assert min(again.t, first.t) - (heard.t_end or 0) >= 1.9


async def test_a_cancelled_run_gives_its_turn_back(bench: Bench) -> None:
    """Who was cancelled in the queue holds up nobody: the next run is served at once."""
    async with limited(bench, requests=2) as only, only.worker(app_of()):
        for _ in "ab":
            await (await only.start(says())).ended()
        run = await only.start(says())
        await wait_until(run.failing_activity, 30, what="the run waiting")
        assert len(await _reservations(only)) == 1
        await run.handle.signal("cancel")
        assert (await run.ended()).outcome == "cancelled"
        assert await _reservations(only) == []


async def _reservations(bench: Bench) -> list[Any]:
    redis: Any = bench.redis
    return [key async for key in redis.scan_iter(f"onward:{{rate:{account_of(bench)}}}:of:*")]


def account_of(bench: Bench) -> str:
    """Return the name under which the bench's workers share their limits."""
    return claude.account(claude.client(base_url=bench.api.url, api_key="test"))


async def test_what_redis_cannot_share_stops_no_run(bench: Bench) -> None:
    """Without the shared record the API's own 429 is what a run falls back to: it goes on."""
    redis: Any = bench.redis
    key = f"onward:{{rate:{account_of(bench)}}}:pool:{MODEL}"
    await redis.set(key, "another program's", px=60_000)
    run = await bench.run(app_of(), says(faults=[Fault(status=429, retry_after=0.1)]))
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("completed", 2)
