"""What people found broken in operating runs: no figure when it is needed, nobody at work."""

import asyncio
import statistics
import threading
import time
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Any

import pytest
from agent_double import Cli, Ran, double_worker
from agent_runs import Bench, app_of, uses
from temporalio.client import Client
from typed_commands import DONE, line_with, piped

from onward import tool
from onward.testing import wait_until

WITHIN_S = 6.0


async def spent(cli: Cli, run: str, *options: str) -> dict[str, Any]:
    """What `spend` says, which it must say in time."""
    began = time.monotonic()
    ran = await cli("spend", run, *options, "--json")
    assert (ran.code, time.monotonic() - began < WITHIN_S) == (0, True), ran
    return ran.json


@pytest.mark.field("C18")
@pytest.mark.parametrize("end", ["completed", "cancelled", "terminated"])
async def test_spend_is_the_same_before_and_after_the_end(cli: Cli, bench: Bench, end: str) -> None:
    """Running, with no worker, from history alone, and closed in any way: one figure."""
    goes_on = threading.Event()

    @tool(effect="keyed")
    def hold() -> str:
        """Hold the run where it is."""
        goes_on.wait(60)
        return "held"

    async with bench.worker(app_of(hold)):
        run = await bench.start(uses(("hold", {})), max_steps=1)
        await wait_until(lambda: run.requests, 30, what="the request")
        running = await wait_until(lambda: _known(cli, run.name), 30, what="the reply's cost")
        told = [await spent(cli, run.name, "--offline")]
        if end == "terminated":
            await run.handle.terminate()
        elif end == "cancelled":
            await cli("cancel", run.name)
        goes_on.set()
        assert (await cli("result", run.name, "--wait")).code in {1, 5, 6}
        told.append(await spent(cli, run.name))
    told.append(await spent(cli, run.name))
    assert [each["cost_usd"] for each in told] == [running["cost_usd"]] * 3
    assert [each["output_tokens"] for each in told] == [running["output_tokens"]] * 3


async def _known(cli: Cli, run: str) -> dict[str, Any]:
    found = await spent(cli, run)
    return found if Decimal(found["cost_usd"]) else {}


@pytest.mark.field("C18")
async def test_spend_without_a_worker_says_why_it_may_be_more(
    cli: Cli, client: Client, queue: str
) -> None:
    """Nobody answers, or the code fails: what finished steps cost, and a reason in one line."""
    async with double_worker(client, queue):
        run = (await cli("start", "waits", "--json")).json["run"]
        fails = (await cli("start", "loops", "--json")).json["run"]
        live = await wait_until(lambda: _known(cli, run), 20, what="the reply's cost")
        await wait_until(lambda: _known(cli, fails), 20, what="the other reply's cost")
        stuck = await cli("spend", fails)
    took, told = list[float](), list[Ran]()
    for _ in range(3):  # by the median: one look may meet a busy machine
        began = time.monotonic()
        told.append(await cli("spend", run))
        took.append(time.monotonic() - began)
    assert statistics.median(took) < WITHIN_S, took
    assert live["cost_usd"] == "0.25"
    for ran in (*told, stuck):
        assert (ran.code, "$0.2500" in ran.out, ran.err.count("at least: ")) == (0, True, 1)
    for each in (run, fails):
        await client.get_workflow_handle(each).terminate()


@pytest.mark.field("C19")
@pytest.mark.parametrize("who", ["nobody", "another queue", "gone"])
async def test_start_says_within_seconds_that_nobody_works(
    client: Client, queue: str, who: str
) -> None:
    """No worker, one on another queue, one that died: how to start one; then the run goes on."""
    async with AsyncExitStack() as elsewhere:
        if who == "another queue":
            await elsewhere.enter_async_context(double_worker(client, f"{queue}-other"))
        elif who == "gone":
            async with double_worker(client, queue):
                pass
        began = time.monotonic()
        waiter = await piped("start", "completes", "--wait")
        assert waiter.stderr is not None
        gone = "has taken the run yet, though one was there"
        await line_with(waiter.stderr, gone if who == "gone" else "nothing polls the task queue")
        assert time.monotonic() - began < 2 * WITHIN_S, "the start of a process is in it"
        async with double_worker(client, queue):
            out, _ = await asyncio.wait_for(waiter.communicate(), 30)
    assert (waiter.returncode, out.decode()) == (0, DONE + "\n")
