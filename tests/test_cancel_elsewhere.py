"""A run is cancelled from another machine than its worker's, whatever it does, and it alone."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, says, uses
from people import say, waiting

from onward import ToolContext, tool
from onward.connection import connect
from onward.settings import Settings
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step

pytestmark = pytest.mark.cancel


@dataclass
class Tools:
    """Tools that say which run called them."""

    acted: list[str] = field(default_factory=list[str])
    go_on: set[str] = field(default_factory=set[str])

    def of_app(self) -> list[object]:
        """Make them."""

        @tool(effect="read")
        async def look(n: int) -> str:
            """Look."""
            return f"seen {n}"

        @tool(effect="keyed")
        async def act(ctx: ToolContext) -> str:
            """Act, until one lets it end."""
            self.acted.append(ctx.run)
            while ctx.run not in self.go_on:  # noqa: ASYNC110  (set in another event loop)
                await asyncio.sleep(0.02)
            return "acted"

        @tool(effect="keyed", ask="always")
        async def ask() -> str:
            """Act when a person says so."""
            return "acted"

        return [look, act, ask]


async def _failing(run: Run) -> None:
    await wait_until(run.failing_activity, 30, what="the wait for the next try")


def _asked(run: Run) -> Awaitable[object]:
    return wait_until(lambda: run.requests, 30, what="the request")


def _approve(run: Run) -> Awaitable[object]:
    return say(run, "approve", "1.1")


async def _nothing(_run: Run) -> None:
    pass


Reached = Callable[[Run], Awaitable[object]]


def places(tools: Tools) -> list[tuple[Callable[[float], list[Step]], Reached, bool]]:
    """Where both runs of a pair are: scripts that keep a run there for some seconds, and more.

    Also how it is seen that one is there, and whether the twin has to be approved.
    """

    def acts(run: Run) -> Awaitable[object]:
        return wait_until(lambda: run.name in tools.acted, 30, what="the call")

    def overloaded(for_s: float) -> Fault:
        return Fault(status=529, retry_after=for_s)

    def looks(for_s: float) -> list[Step]:
        return [uses(("look", {"n": n}), delay_s=0.1) for n in range(int(for_s))]

    return [
        (lambda for_s: [says(delay_s=for_s)], _asked, False),
        (lambda _: [uses(("act", {})), says()], acts, False),
        (lambda _: [uses(("ask", {})), says()], waiting, True),
        (lambda for_s: [says(faults=[overloaded(for_s)])], _failing, False),
        (lambda for_s: [*looks(for_s), says()], _asked, False),
    ]


@pytest.mark.field("E05")
async def test_a_stop_from_elsewhere_ends_one_run_wherever_it_is(bench: Bench, cli: Cli) -> None:
    """In a model call, a tool, an approval, a backoff, between steps; its twin is untouched.

    The reason is kept, and a second stop changes nothing.
    """
    tools, one_by_one = Tools(), asyncio.Lock()
    app, other = app_of(*tools.of_app()), replace(bench, temporal=await connect(Settings()))

    async def of_pair(steps: Callable[[float], list[Step]], reached: Reached, ask: bool) -> None:
        stopped, twin = await bench.start(*steps(60)), await bench.start(*steps(2))
        await asyncio.gather(reached(stopped), reached(twin))
        async with one_by_one:
            said = await cli("cancel", stopped.name, "--reason", "not wanted")
        assert (said.code, "asked" in said.err) == (0, True)
        tools.go_on.add(stopped.name)
        result = await stopped.ended()
        assert result.outcome == "cancelled"
        assert result.detail.startswith("cancelled: not wanted (by ")
        async with one_by_one:
            again = await cli("cancel", stopped.name, "--reason", "another")
        assert (again.code, "has ended already" in again.err) == (0, True)
        tools.go_on.add(twin.name)
        await (_approve if ask else _nothing)(twin)
        assert (await twin.ended()).outcome == "completed"
        assert (await stopped.ended()) == result

    async with bench.worker(app), other.worker(app):
        await asyncio.gather(*(of_pair(*place) for place in places(tools)))
    assert len(tools.acted) == 2
