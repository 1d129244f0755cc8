"""`cancel --agent NAME --all`: stop everything, as in an incident, and nothing else."""

import asyncio
import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_double import Cli
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from onward import listing
from onward.client.saying import signal
from onward.errors import ConnectError
from onward.messages import RunRequest
from onward.names import WORKFLOW
from onward.steering import stopping
from onward.testing import wait_until

pytestmark = pytest.mark.cancel


@dataclass
class Agent:
    """Runs of an agent that no other test has."""

    client: Client
    queue: str
    name: str = field(default_factory=lambda: f"agent-{uuid.uuid4().hex[:8]}")
    handles: list[WorkflowHandle[Any, Any]] = field(default_factory=list[Any])

    async def start(self, count: int = 1) -> None:
        """Start runs that go on until they are stopped."""
        self.handles += await asyncio.gather(*(self._start() for _ in range(count)))

    async def _start(self) -> WorkflowHandle[Any, Any]:
        started = datetime.now(UTC).isoformat()
        return await self.client.start_workflow(
            WORKFLOW,
            RunRequest(prompt="waits", agent=self.name),
            id=f"stop-{uuid.uuid4().hex[:12]}",
            task_queue=self.queue,
            memo={"agent": self.name, "prompt": "waits", "started": started},
        )

    async def listed(self) -> None:
        """Wait until Temporal's index has all of them."""
        which = listing.Which(agent=self.name, going=True)

        async def all_there() -> bool:
            return len(await listing.find(self.client, which)) == len(self.handles)

        await wait_until(all_there, 30, what="the runs in the index")

    async def asked(self) -> int:
        """Count those that were asked to end."""
        histories = await asyncio.gather(*(handle.fetch_history() for handle in self.handles))
        return sum(
            any(
                event.HasField("workflow_execution_signaled_event_attributes") for event in h.events
            )
            for h in histories
        )

    async def end(self) -> None:
        """Leave none of them behind."""
        for handle in self.handles:
            if (await handle.describe()).status == WorkflowExecutionStatus.RUNNING:
                await handle.terminate()


@pytest.fixture
def agent(client: Client, queue: str) -> Agent:
    return Agent(client, queue)


async def test_nothing_is_stopped_unless_somebody_says_so(cli: Cli, agent: Agent) -> None:
    """--dry-run shows the runs; without a terminal --yes is wanted; half of the options is none."""
    await agent.start(2)
    await agent.listed()
    every = ("cancel", "--agent", agent.name, "--all")
    looked = await cli(*every, "--dry-run")
    assert looked.code == 0
    assert all(handle.id in looked.out for handle in agent.handles)
    assert "2 runs would be cancelled; nothing was done" in looked.err
    alone = await cli(*every)
    assert (alone.code, "these 2 runs" in alone.err, "Add --yes" in alone.err) == (2, True, True)
    for half in (every[:3], (every[0], every[3]), ("cancel", agent.handles[0].id, "--all")):
        refused = await cli(*half, "--yes")
        assert (refused.code, "cancel --agent NAME --all" in refused.err) == (2, True)
    assert await agent.asked() == 0
    none = await cli("cancel", "--agent", "nobody-has-this", "--all", "--yes")
    assert (none.code, "no run of an agent 'nobody-has-this' is open" in none.err) == (0, True)
    await agent.end()


@pytest.mark.usefixtures("worker")
async def test_all_runs_of_the_agent_are_stopped_and_no_other(
    cli: Cli, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a page of them; the run of another agent goes on; who asked, and why, is kept."""
    monkeypatch.setattr("onward.listing.finding._PAGE", 10)
    other = Agent(agent.client, agent.queue)
    await asyncio.gather(agent.start(25), other.start())
    await agent.listed()
    said = await cli(*_all(agent), "--reason", "doubled", "--by", "ops@desk", "--json")
    assert said.code == 0, said.err
    assert {run["cancelling"] for run in said.json["runs"]} == {True}
    assert len(said.json["runs"]) == 25
    results = await asyncio.gather(*(handle.result() for handle in agent.handles))
    assert {(each["outcome"], each["detail"]) for each in results} == {("cancelled", "doubled")}
    assert await other.asked() == 0
    await other.end()


def _all(agent: Agent) -> tuple[str, ...]:
    return ("cancel", "--agent", agent.name, "--all", "--yes")


async def test_a_run_that_begins_meanwhile_is_stopped_too(
    cli: Cli, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found when the command looks again."""
    await agent.start()
    await agent.listed()

    async def beside_a_start(*args: Any) -> bool:
        if len(agent.handles) == 1:
            await agent.start()
            await agent.listed()
        return await signal(*args)

    monkeypatch.setattr(stopping, "signal", beside_a_start)
    assert "asked 2 runs to stop" in (await cli(*_all(agent))).err
    assert await agent.asked() == 2
    await agent.end()


async def test_a_run_that_cannot_be_asked_stops_no_other(
    cli: Cli, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went wrong is told by run, and the exit code says that something did."""
    await agent.start(3)
    await agent.listed()
    unlucky, ended = agent.handles[0].id, agent.handles[1]

    async def fails_once(client: Client, run: Any, *args: Any) -> bool:
        if run.id == unlucky:
            raise ConnectError("Temporal did not answer")
        if run.id == ended.id:
            await ended.terminate()
        return await signal(client, run, *args)

    monkeypatch.setattr(stopping, "signal", fails_once)
    said = await cli(*_all(agent))
    assert said.code == 1
    assert f"{unlucky}: Temporal did not answer" in said.err
    assert "asked 1 run to stop" in said.err
    assert "1 had ended already; 1 could not be asked" in said.err
    assert await agent.asked() == 1
    await agent.end()


async def test_a_person_at_a_terminal_is_asked(
    cli: Cli, agent: Agent, at_terminal: Callable[[str], None]
) -> None:
    """Whoever does not say yes has stopped nothing."""
    await agent.start()
    await agent.listed()
    for typed, code, asked in (("\n", 2, 0), ("y\n", 0, 1)):
        at_terminal(typed)
        said = await cli("cancel", "--agent", agent.name, "--all")
        assert "Cancel this run? [y/N]" in said.err
        assert (said.code, await agent.asked()) == (code, asked)
    await agent.end()


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a command find a terminal, at which a person types something."""

    def typed(text: str) -> None:
        ours, theirs = os.openpty()
        monkeypatch.setattr(sys, "stdin", os.fdopen(theirs))
        os.write(ours, text.encode())

    return typed
