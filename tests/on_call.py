"""Somebody on call, with a page of `docs/runbooks`: servers that may break, runs to look after.

What a page calls `batch-1`, `support` or `A-17` has a name of its own in each test, since tests
share Temporal and the payments service; whoever types puts the one in place of the other.
"""

import re
import uuid
from dataclasses import dataclass, field
from typing import Any

from agent_runs import MODEL, Bench, Run
from pages import Reader, Said, blocks
from temporalio.client import WorkflowHandle

from onward import Agent, App
from onward.local_services import RedisServer
from onward.messages import RunResult
from onward.testing.messages_api import Step
from onward.tools import Tool


@dataclass
class OnCall:
    """Whoever is on call; the incident befalls a Redis and runs of their own."""

    bench: Bench
    redis: RedisServer
    reader: Reader
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def __post_init__(self) -> None:
        # Other tests leave runs behind that wait, and whose workers are gone.
        ours = f"onward list --waiting --agent {self.named('support')}"
        self.puts(ours, "onward list --waiting")

    def named(self, page: str) -> str:
        """Name that stands for one of the page's."""
        return self._names.setdefault(page, f"{page}-{self._id}")

    def puts(self, ours: str, page: str) -> None:
        """Type these words where the page has others."""
        self._names[page] = ours

    def app(self, *tools: Tool[..., Any]) -> App:
        """Make an app whose agent is the page's `support`."""
        return App(Agent(self.named("support"), model=MODEL, tools=tools))

    async def start(self, name: str, *steps: Step, options: str = "") -> Run:
        """Start the run that the page calls `name`, as a person would."""
        run_id = self.named(name)
        self.bench.api.scripts[run_id] = self.bench.script(*steps)
        start = f"onward start '[script:{name}]' --agent support --id {name} {options}"
        await self.types(start)
        return self.run(run_id)

    def run(self, run_id: str) -> Run:
        """Return the run that has this id."""
        handle: WorkflowHandle[Any, RunResult] = self.bench.temporal.get_workflow_handle(
            run_id, result_type=RunResult
        )
        return Run(self.bench, run_id, handle)

    async def types_block(self, containing: str, *statuses: int) -> list[str]:
        """Type the block of the page that holds this text; returns what each command printed.

        They exit with `statuses`, or all with 0.
        """
        commands = self.reader.commands(containing)
        wanted = statuses or (0,) * len(commands)
        return [await self.types(*each) for each in zip(commands, wanted, strict=True)]

    def shown(self, containing: str) -> re.Pattern[str]:
        """Make what finds the page's example of output that holds this text in what was printed.

        `…` stands for anything, one number or person for any other.
        """
        texts = (b.text for b in blocks(self.reader.page) if b.language == "text")
        (text,) = (text for text in texts if containing in text)
        found = re.escape(self._ours(text.strip())).replace("…", ".*").replace("ops@desk", r"\S+")
        return re.compile(re.sub(r"\d+", r"\\d+", re.sub(r"(\\\s)+", r"\\s+", found)))

    async def types(self, command: str, status: int = 0) -> str:
        """Type one command that exits with `status`; returns what it printed."""
        said = await self.said(command)
        assert said.status == status, (command, said)
        return said.output

    async def said(self, command: str) -> Said:
        """Type one command, with our names in place of the page's."""
        changes = {page: ours for page, ours in self._names.items() if page in command}
        return await self.reader.types(command, changes)

    def _ours(self, text: str) -> str:
        for page, ours in self._names.items():
            text = text.replace(page, ours)
        return text
