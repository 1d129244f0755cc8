"""A stand-in for Onward's workflow, for tests in which only its outside matters.

It has the real one's name, queries, signal and activities; the prompt's first word says what it
does. Commands are tested against it where the real loop would bring an app, a key and a Redis.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import starter
from onward.messages import (
    CancelRequest,
    ClaudeReply,
    Head,
    Limits,
    Opening,
    Outcome,
    RunRequest,
    RunResult,
    RunStatus,
    Spend,
    Witness,
)
from onward.starting import pollers
from onward.testing import wait_until

WITNESS = Witness(nonce="n", inc="i", run_id="r")
HEAD = Head(step="1", digest="d")
STEP_SPEND = Spend(requests=1, input_tokens=100, output_tokens=20, cost_usd=Decimal("0.25"))
OUTCOMES: dict[str, Outcome] = {
    "limited": "limit_steps",
    "refused": "refused",
    "full": "context_exceeded",
}
"""What ends at once in an outcome of its own."""


@activity.defn(name="begin")
async def begin(request: RunRequest) -> Opening:
    """Begin, unless the agent is one that no worker has."""
    if request.agent == "nobody":
        raise ApplicationError("no agent 'nobody' on this worker; it has 'coder'", type="AppError")
    return Opening(
        frozen="{}",
        effects={},
        limits=Limits(max_steps=request.limits.max_steps or 100),
        witness=WITNESS,
        head=HEAD,
        takeover_s=1.5,
        price_known=request.model != "unpriced",
    )


@activity.defn(name="call_claude")
async def call_claude(prompt: str) -> ClaudeReply:
    """Answer; or fail as an overloaded API does."""
    if prompt.startswith("overloaded"):
        raise ApplicationError(
            "Claude answers 529", next_retry_delay=timedelta(seconds=30)
        ) from ValueError("what the SDK said")
    return ClaudeReply(
        message="{}",
        stop_reason="end_turn",
        head=HEAD,
        prev="0",
        spend=STEP_SPEND,
        witness=WITNESS,
    )


@activity.defn(name="end")
async def end(result: RunResult) -> RunResult:
    """Hand back the result, as the real one does after it let the records expire."""
    return result


@workflow.defn(name="agent", sandboxed=False)
class AgentDouble:
    """Does what the first word of the prompt says."""

    def __init__(self) -> None:
        self._status = RunStatus(agent="", state="running", step="0", doing="beginning")
        self._spend = Spend()
        self._stop: str | None = None

    @workflow.run
    async def run(self, request: RunRequest) -> RunResult:
        """Run to the outcome that the prompt asks for."""
        retry = RetryPolicy(maximum_attempts=1)
        soon = timedelta(seconds=30)
        try:
            opening = await workflow.execute_activity(
                begin, request, start_to_close_timeout=soon, retry_policy=retry
            )
        except ActivityError as error:
            result = RunResult(outcome="failed", detail=str(error.cause))
            raise ApplicationError(result.detail, result.model_dump(mode="json")) from error
        self._status = RunStatus(
            agent=request.agent,
            state="running",
            step="1",
            doing="asking Claude",
            limits=opening.limits,
            workspace=request.workspace,
        )
        reply = await workflow.execute_activity(
            call_claude, request.prompt, start_to_close_timeout=soon
        )
        self._spend = reply.spend
        self._status = self._status.model_copy(update={"spend": reply.spend, "doing": "12.1 bash"})
        return await self._as_asked(request.prompt.split()[0])

    @workflow.signal(name="cancel")
    def cancel(self, request: CancelRequest | None = None) -> None:
        """Stop."""
        self._stop = request.reason if request else ""

    @workflow.query(name="status")
    def status(self) -> RunStatus:
        """Say how it goes."""
        return self._status

    @workflow.query(name="spend")
    def spend(self) -> Spend:
        """Say what it cost."""
        return self._spend

    async def _as_asked(self, what: str) -> RunResult:
        if what == "fails":
            failed = self._result("failed", "Claude answers 400")
            raise ApplicationError(failed.detail, failed.model_dump(mode="json"))
        if what == "breaks":
            raise ApplicationError("something nobody thought of", non_retryable=True)
        if what == "loops":
            raise RuntimeError("a bug in the loop")
        if what == "waits":
            return await self._wait()
        return self._result(OUTCOMES.get(what, "completed"), "")

    async def _wait(self) -> RunResult:
        try:
            await workflow.wait_condition(lambda: self._stop is not None)
        except asyncio.CancelledError:
            result = self._result("cancelled", "cancelled in the Temporal UI")
            await workflow.execute_activity(
                end, result, start_to_close_timeout=timedelta(seconds=30)
            )
            raise
        return self._result("cancelled", self._stop or "")

    def _result(self, outcome: Outcome, detail: str) -> RunResult:
        return RunResult(
            outcome=outcome,
            text="Done: [bold]naïve[/bold] ✓",
            detail=detail,
            steps=1,
            spend=self._spend,
        )


@dataclass(frozen=True)
class Ran:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON document on standard output."""
        found: dict[str, Any] = json.loads(self.out)
        return found


class Cli:
    """Runs commands in this process, with what it prints kept."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured

    async def __call__(self, *tokens: str) -> Ran:
        """Run one command line, as `onward …` would."""
        self._captured.readouterr()
        code = await asyncio.to_thread(starter.run, tokens)
        printed = self._captured.readouterr()
        return Ran(code, printed.out, printed.err)


@asynccontextmanager
async def double_worker(client: Client, task_queue: str) -> AsyncGenerator[Worker, None]:
    """Run a worker of the double on that queue; Temporal lists it when the block begins."""
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[AgentDouble],
        activities=[begin, call_claude, end],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ) as worker:
        await wait_until(lambda: pollers(client, task_queue), 30, what="the worker being listed")
        yield worker
