"""The pages on runs are true: what they say to type is typed, at runs of a real worker."""

import os
import shutil
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from agent_double import Cli
from agent_runs import ASKED, MODEL, Bench, Run, says, uses
from pages import Reader, Said
from people import waiting

from onward import Agent, App, tool
from onward.testing import wait_until
from onward.testing.messages_api import Step

WHERE = ("TEMPORAL_ADDRESS", "ONWARD_REDIS_URL", "ONWARD_TASK_QUEUE", "ONWARD_PAYLOAD_DIR")
"""Settings by which commands find the bench."""


@tool(effect="keyed", ask="always")
async def refund(order: str) -> str:
    """Refund."""
    return f"refunded {order}"


@tool(moves_money=True)
async def pay(cents: int) -> str:
    """Fail with an outcome that a person settles."""
    raise TimeoutError(f"no answer about {cents}")


@dataclass
class Desk:
    """A worker of an agent of the test's own, and what a reader needs who types at its runs."""

    bench: Bench
    folder: Path
    cli: Cli
    agent: str

    def reader(self, page: str) -> Reader:
        """Make somebody who has the page, and settings that lead to the worker."""
        return Reader(page, self.folder, {name: os.environ[name] for name in WHERE}, self.cli)

    async def start(self, *steps: Step) -> Run:
        """Start a run."""
        return await self.bench.start(*steps, agent=self.agent)

    async def ended(self, text: str = "Done.") -> Run:
        """Start a run and let it end."""
        run = await self.start(says(text))
        await run.ended()
        return run


@pytest_asyncio.fixture(loop_scope="session")
async def desk(bench: Bench, tmp_path: Path, cli: Cli) -> AsyncGenerator[Desk]:
    """Lay it out."""
    name = f"support-{uuid.uuid4().hex[:8]}"
    app = App(Agent(name, model=MODEL, tools=[refund, pay]))
    bench.api.scripts["default"] = bench.script(says())
    async with bench.worker(app, search_attributes=True, **ASKED):
        yield Desk(bench, tmp_path, cli, name)


async def typed(reader: Reader, containing: str, changes: Mapping[str, str]) -> list[Said]:
    """Type all commands of a block, each with those changes that it has a place for."""
    said: list[Said] = []
    for command in reader.commands(containing):
        own = {old: new for old, new in changes.items() if old in command}
        said.append(await reader.types(command, own))
    return said


async def test_cancelling(desk: Desk) -> None:
    """A fork goes on from a cancelled run, and one command ends all runs of an agent."""
    reader = desk.reader("docs/cancelling.md")
    waits = await desk.start(uses(("refund", {"order": "1042"})), says())
    await waiting(waits)
    agent = {"--agent support": f"--agent {desk.agent}"}

    async def shown() -> bool:
        (dry, _) = await typed(reader, "--dry-run", agent)
        return dry.status == 0 and waits.name in dry.output

    await wait_until(shown, 20, what="the run in Temporal's index")
    (_, asked) = await typed(reader, "--dry-run", agent)
    assert asked.status == 2, "without a terminal and without --yes nothing is done"
    sure = agent | {"--reason": "--yes --reason"}
    (_, done) = await typed(reader, "--dry-run", sure)
    assert (done.status, (await waits.ended()).outcome) == (0, "cancelled")
    (forked,) = await typed(reader, "fork RUN", {"RUN": waits.name})
    assert forked.status == 0
    assert reader.untyped() == set()


async def test_finding_runs(desk: Desk) -> None:
    """A run that was started with a tag is found by it, with its cost and its effects."""
    reader = desk.reader("docs/finding-runs.md")
    order = uuid.uuid4().hex[:8]
    mine = {
        "support": desk.agent,
        "order=1042": f"order={order}",
        "--waiting": "--waiting --tag x=y",
    }
    (started,) = await typed(reader, "onward start", mine)
    assert started.status == 0

    async def found() -> bool:
        lists = await typed(reader, "onward list ", mine)
        assert [said.status for said in lists] == [0] * 5
        return desk.agent in lists[3].output

    await wait_until(found, 20, what="the run in Temporal's index")
    (spent, audited) = await typed(reader, "onward spend", mine)
    assert (spent.status, audited.status) == (0, 0)
    assert desk.agent in spent.output
    assert reader.untyped() == set()


async def test_in_doubt(desk: Desk) -> None:
    """A person settles a call in doubt by the command of the page, and the run goes on."""
    reader = desk.reader("docs/guarantees.md")
    run = await desk.start(uses(("pay", {"cents": 60})), says())
    await waiting(run)
    (settled,) = await typed(reader, "resolve", {"RUN": run.name, "12.1": "1.1"})
    assert settled.status == 0
    assert (await run.ended()).outcome == "completed"
    assert reader.untyped() == set()


async def test_limits(desk: Desk) -> None:
    """Limits are shown and raised; a model without a price runs where tokens bound it."""
    reader = desk.reader("docs/limits.md")
    run = await desk.start(uses(("refund", {"order": "A-7"})), says())
    await waiting(run)
    (shown, raised) = await typed(reader, "--max-minutes", {"batch-1": run.name})
    assert (shown.status, raised.status) == (0, 0)
    assert "12" in raised.output
    (started,) = await typed(
        reader, "my-gateways-name", {"refunds": desk.agent, "onward start": "onward start --wait"}
    )
    assert started.status == 0
    assert reader.untyped() == set()


async def test_messages(desk: Desk) -> None:
    """A run takes words, is paused and resumed; a fork tells Claude what it never saw."""
    reader = desk.reader("docs/messages.md")
    run = await desk.start(uses(("refund", {"order": "A-7"})), says())
    await waiting(run)
    named = {"RUN": run.name}
    said = [*await typed(reader, "send", named), *await typed(reader, "pause", named)]
    assert [each.status for each in said] == [0, 0, 0]
    assert (await desk.cli("cancel", run.name)).code == 0
    await run.ended()
    (forked,) = await typed(reader, "fork", named)
    assert forked.status == 0
    await wait_until(lambda: "Leave order A-7 out" in run.requests[-1].body, 20, what="the words")
    assert reader.untyped() == set()


@pytest.mark.skipif(shutil.which("jq") is None, reason="PAGE NOT TYPED: apt-get install jq")
async def test_watching(desk: Desk) -> None:
    """Watching shows what Claude said, to people and, as the page says, to scripts."""
    reader = desk.reader("docs/watching.md")
    run = await desk.ended("Order A-7 was never delivered.")
    (watched,) = await typed(reader, "watch RUN\n", {"RUN": run.name})
    (piped,) = await typed(reader, "jq", {"RUN": run.name})
    assert watched.status == 0
    assert "Order A-7 was never delivered." in watched.output
    assert piped.status == 0
    assert piped.output.endswith("\nOrder A-7 was never delivered.\n")
    assert reader.untyped() == set()


async def test_commands(desk: Desk) -> None:
    """Completion is switched on for a shell as the page says, now and for later."""
    reader = desk.reader("docs/commands.md")
    reader.env["HOME"] = str(desk.folder)
    (desk.folder / ".config/fish/completions").mkdir(parents=True)
    (now, bash, fish) = await typed(
        reader, "completion", {'bash)"': 'bash)"; complete | grep _onward'}
    )
    assert [now.status, bash.status, fish.status] == [0, 0, 0]
    assert "onward" in now.output
    assert (desk.folder / ".bashrc").read_text() == ". ~/.onward.bash\n"
    assert (
        "complete -c onward" in (desk.folder / ".config/fish/completions/onward.fish").read_text()
    )
    assert reader.untyped() == set()
