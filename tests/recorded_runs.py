"""Runs whose first request is answered with a recording: what became of it, many at once."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agent_runs import MODEL, Bench, Run
from recorded import Recording, cost_usd, counted, sent_back
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner

from onward import Agent, App, tool
from onward.messages import Fork, RunRequest, RunResult
from onward.names import WORKFLOW
from onward.testing.messages_api import Asked, Step
from onward.testing.messages_api.literal_json import canonical, parse
from onward.tools import Tool

MAX_TOKENS = 4096
NOTHING = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 0,
}
END = Step(content=[{"type": "text", "text": "Done."}], usage=NOTHING)
"""What Claude says to the request that follows a recorded reply."""
ENDS = {"end_turn", "stop_sequence"}
"""Stop reasons after which a person must say something, for another request to follow."""
AT_ONCE = 8


@dataclass
class Case:
    """A run whose first request is answered with a recording, and every later one with `END`."""

    bench: Bench
    recording: Recording
    agent_name: str

    def agent(self) -> Agent:
        """Make an agent that has every tool which the recorded reply asks for."""
        content = self.recording.truth.get("content") or ()
        asked = {block["name"] for block in content if block["type"] == "tool_use"}
        tools = [tool_named(name) for name in sorted(asked)]
        return Agent(self.agent_name, model=MODEL, max_tokens=MAX_TOKENS, tools=tools)

    async def run(self) -> Run:
        """Start the run."""
        name = f"run-{uuid.uuid4().hex[:12]}"
        self.bench.api.scripts[name] = self._answer
        return await self._start(name, RunRequest(prompt=f"[script:{name}]", agent=self.agent_name))

    async def go_on(self, run: Run) -> Run:
        """Say something after the end of a run, in a fork of it."""
        run_id = (await run.handle.describe()).run_id
        parent = Fork(workflow_id=run.name, run_id=run_id, first_run_id=run_id)
        said = RunRequest(prompt="And now?", agent=self.agent_name, fork=parent)
        return await self._start(f"{run.name}-fork", said)

    async def _start(self, name: str, request: RunRequest) -> Run:
        handle: WorkflowHandle[Any, RunResult] = await self.bench.temporal.start_workflow(
            WORKFLOW, request, id=name, task_queue=self.bench.queue, result_type=RunResult
        )
        return Run(self.bench, name, handle)

    def _answer(self, asked: Asked) -> Step:
        # A reply without content leaves no turn behind, and one that is redone neither.
        first = len(asked.body["messages"]) == 1 and asked.body["max_tokens"] == MAX_TOKENS
        return Step(recording=dict(self.recording.response)) if first else END


Problems = Callable[[Case], Awaitable[list[str]]]
"""Runs a case, and says what was not as it should be."""


def tool_named(name: str) -> Tool[..., Any]:
    """Make a tool of any name. Claude's arguments do not fit it, which it is told."""

    def read() -> str:
        """Read."""
        return "read"

    read.__name__ = name
    return tool(effect="read")(read)


async def checked(
    bench: Bench, recorded: Sequence[Recording], problems: Problems
) -> dict[str, Any]:
    """Run many cases at once; returns what was wrong, by recording."""
    cases = [Case(bench, each, f"agent-{number}") for number, each in enumerate(recorded)]
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> list[str]:
        async with limit:
            return await problems(case)

    app = App(*(case.agent() for case in cases))
    # Replays are tested elsewhere: here they would cost half of the time.
    quick: dict[str, Any] = {"unsandboxed_workflow_runner": UnsandboxedWorkflowRunner()}
    async with bench.worker(app, max_cached_workflows=AT_ONCE * 2, **quick):
        found = await asyncio.gather(*map(one, cases))
    return {case.recording.name: text for case, text in zip(cases, found, strict=True) if text}


async def reply_problems(case: Case) -> list[str]:
    """Say what of a recorded reply was not as it should be."""
    message, run = case.recording.truth, await case.run()
    result, stopped = await result_of(run), message["stop_reason"]
    paid = {**counted(message), "cost_usd": cost_usd(message)}
    if stopped in ENDS:
        await result_of(await case.go_on(run))
    back = [] if stopped == "refusal" else sent_back(message["content"])
    return differences(
        ("outcome", result.outcome, "refused" if stopped == "refusal" else "completed"),
        ("spend", {name: getattr(result.spend, name) for name in paid}, paid),
        ("content", content_sent(run), back),
        ("refused requests", [e.violations for e in run.requests if e.violations], []),
        ("container", parse(run.requests[-1].body).get("container"), container_of(message)),
        ("requests", len(run.requests), 1 if stopped == "refusal" else 2),
    )


def container_of(message: dict[str, Any]) -> str | None:
    """Id of the container that Claude's code ran in; None: in none."""
    container: dict[str, str] = message.get("container") or {}
    return container.get("id")


def content_sent(run: Run) -> list[str]:
    """Claude's content in the newest request of a run, or of its fork, as it is compared."""
    said = parse(run.requests[-1].body)["messages"]
    return [canonical(b) for turn in said if turn["role"] == "assistant" for b in turn["content"]]


async def result_of(run: Run) -> RunResult:
    """Wait for the end of a run, however it ends."""
    with suppress(WorkflowFailureError):
        return await run.handle.result()
    return await run.failed()


def differences(*compared: tuple[str, Any, Any]) -> list[str]:
    """Tell what was found otherwise than expected."""
    return [f"{what}: found {a!r}, expected {b!r}" for what, a, b in compared if a != b]
