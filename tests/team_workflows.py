"""Workflows of a team that has a worker of its own; they run in the sandbox."""

import importlib
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from onward import run_agent
from onward.messages import LimitOverrides, RunResult


@dataclass(frozen=True)
class Asked:
    """What a parent is to ask an agent for."""

    id: str
    prompt: str
    agent: str = "tester"
    max_steps: int = 10


@workflow.defn
class Parent:
    """Runs one agent."""

    @workflow.run
    async def run(self, asked: Asked) -> RunResult:
        """Run an agent."""
        limits = LimitOverrides(max_steps=asked.max_steps)
        return await run_agent(asked.agent, asked.prompt, id=asked.id, limits=limits)


@workflow.defn
class Bulky:
    """Has a long result and no agent."""

    @workflow.run
    async def run(self) -> str:
        """Say something long."""
        return "x" * 200_000


@workflow.defn
class Collecting:
    """Does what the garbage collector does in any workflow when it finds a client of Redis."""

    @workflow.run
    async def run(self) -> None:
        """Import what such a client imports at its end."""
        importlib.import_module("redis.observability.recorder")


@workflow.defn
class Forgetful:
    """Asks for an activity that nobody registered."""

    @workflow.run
    async def run(self) -> None:
        """Ask for it once."""
        await workflow.execute_activity(
            "forgotten",
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


@workflow.defn(name="agent")
class TheirAgent:
    """Is named like Onward's runs."""

    @workflow.run
    async def run(self) -> None:
        """Do nothing."""
