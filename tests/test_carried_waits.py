"""A step that waits for people is carried over whole: who waits, for what, and what was said."""

import asyncio
from typing import Any

import httpx2
import pytest
from agent_runs import Bench, Run, app_of, says, uses
from people import say, say_once, waiting
from temporalio.client import WorkflowUpdateFailedError

from onward import tool
from onward.messages import Waiting
from onward.testing import wait_until
from onward.tools import Tool

pytestmark = pytest.mark.replay
AS_IT_WAITS = 12
"""Events after which a run that waits in its first step continues as new."""
AT_THE_FIRST_WORD = 17
"""Events after which it does so as somebody says the first word."""


def unanswered(timeout_s: float = 0.5) -> Tool[[str], Any]:
    """A tool that needs an approval, and then gets no answer."""

    @tool(moves_money=True, timeout_s=timeout_s, ask="always")
    async def pay(to: str) -> str:
        """Pay out."""
        raise httpx2.ReadTimeout(f"no answer about {to}")

    return pay


async def in_doubt(run: Run, count: int = 1) -> tuple[Waiting, ...]:
    """Wait until so many calls wait for somebody to settle their doubts."""
    found: list[Waiting] = []

    async def doubted() -> bool:
        found[:] = [each for each in await waiting(run) if each.kind == "doubt"]
        return len(found) >= count

    await wait_until(doubted, 30, what=f"{count} doubts")
    return tuple(found)


async def continued(run: Run, times: int = 1) -> None:
    """Wait until the run has continued as new."""

    async def is_new() -> bool:
        return len(await run.chain()) > times

    await wait_until(is_new, 30, what=f"continue-as-new {times}")


async def test_a_call_in_doubt_shows_what_it_asked_for(bench: Bench) -> None:
    """Approved in one workflow run and in doubt in the next one, which never saw Claude's reply."""
    bench.history_events = AS_IT_WAITS
    async with bench.worker(app_of(unanswered())):
        run = await bench.start(uses(("pay", {"to": "x"}), ("pay", {"to": "y"})), says())
        await waiting(run, 2)
        await continued(run)
        await say(run, "approve", "1.1")
        (doubt,) = await in_doubt(run)
        assert (doubt.call, doubt.input) == ("1.1", '{"to":"x"}')
        await say(run, "resolve", "1.1", outcome="done")
        await continued(run, 2)
        await say(run, "approve", "1.2")
        (doubt,) = await in_doubt(run)
        assert (doubt.call, doubt.input) == ("1.2", '{"to":"y"}')
        await say(run, "resolve", "1.2", outcome="done")
        result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    await run.replay()


async def test_an_approval_at_the_change_is_heard(bench: Bench) -> None:
    """A read that a person lets run as history grows long is run, and Claude told what it saw."""
    bench.history_events = AT_THE_FIRST_WORD

    @tool(effect="read", ask="always")
    async def peek(what: str) -> str:
        """Look."""
        return f"saw {what}"

    async with bench.worker(app_of(peek)):
        run = await bench.start(uses(("peek", {"what": "a"}), ("peek", {"what": "b"})), says())
        await waiting(run, 2)
        await say(run, "approve", "1.2")
        await continued(run)
        await say(run, "approve", "1.1")
        await run.ended()
    body = run.requests[-1].body
    assert "saw a" in body
    assert "saw b" in body
    await run.replay()


@pytest.mark.field("C16")
async def test_who_settles_too_early_all_the_time_holds_nothing_up(bench: Bench) -> None:
    """While a run is carried over nobody settles a doubt: they are told to say it again."""
    bench.history_events, bench.takeover_s = 30, 300.0
    answers, enough = list[str](), asyncio.Event()

    async def insist(run: Run) -> None:
        while not enough.is_set():
            try:
                await say_once(run, "resolve", "1.1", outcome="failed")
            except WorkflowUpdateFailedError as error:
                answers.append(str(error.cause))

    async with bench.worker(app_of(unanswered()), max_cached_workflows=10):
        run = await bench.start(uses(("pay", {"to": "x"})), says())
        await waiting(run)
        await say(run, "approve", "1.1")
        await in_doubt(run)
        polling = asyncio.create_task(insist(run))
        await continued(run, 2)
        enough.set()
        await polling
        await say(run, "resolve", "1.1", outcome="done")
        result = await run.ended()
    assert result.outcome == "completed"
    assert all("may still land" in said or "Say it again" in said for said in answers)
    await run.replay()
