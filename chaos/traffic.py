"""The runs: new ones start until the time is up, a few at a time, each followed to its end."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from chaos.conversations import Conversation, conversation
from onward.errors import OnwardError
from onward.messages import RunRequest, RunResult
from onward.names import WORKFLOW
from onward.runs import look
from onward.testing.messages_api import ScriptedAPI

TASK_QUEUE = "chaos"
_TASK_TIMEOUT = timedelta(seconds=3)
"""Of a workflow task: how long a worker killed in mid-task delays the next one."""
_RPC_TIMEOUT = timedelta(seconds=5)
_AGAIN_S = 0.2

Handle = WorkflowHandle[Any, RunResult]


@dataclass
class Run:
    """A run that was started, and how it ended."""

    conversation: Conversation
    result: RunResult | None = None
    trouble: str = ""
    """Why there is no result."""

    @property
    def completed(self) -> RunResult | None:
        """Its result, where it ended as it should."""
        return self.result if self.result and self.result.outcome == "completed" else None

    def __str__(self) -> str:
        """Say how it ended."""
        ended = f"ended {self.result.outcome}: {self.result.detail}" if self.result else ""
        return f"run {self.conversation.name} {self.trouble or ended}"


class Traffic:
    """Starts runs and waits for them; `runs` holds all of them."""

    def __init__(self, temporal: Client, api: ScriptedAPI, seed: int) -> None:
        self._temporal, self._api, self._seed = temporal, api, seed
        self._closing = False
        self._least = 0
        self.runs = list[Run]()

    @property
    def ended(self) -> int:
        """How many runs have ended."""
        return sum(run.result is not None or bool(run.trouble) for run in self.runs)

    def open(self, at_once: int, least: int) -> list[asyncio.Task[None]]:
        """Start runs, `at_once` at a time, until `close`, and in any case `least` of them."""
        self._least = least
        return [asyncio.create_task(self._lane()) for _ in range(at_once)]

    def close(self) -> None:
        """Start no new runs beyond the least number."""
        self._closing = True

    async def explain_unended(self) -> None:
        """Say of each run that has no end what holds it up."""
        for run in self.runs:
            if run.result is None and not run.trouble:
                run.trouble = f"did not end: {await self._held_up_by(run)}"

    async def _lane(self) -> None:
        while not self._closing or len(self.runs) < self._least:
            run = Run(conversation(self._seed, len(self.runs) + 1))
            self.runs.append(run)
            self._api.scripts[run.conversation.name] = run.conversation.reply
            await self._follow(run, await self._start(run.conversation.name))

    async def _start(self, name: str) -> Handle:
        request = RunRequest(prompt=f"[script:{name}]", agent="chaos")
        while True:
            try:
                return await self._temporal.start_workflow(
                    WORKFLOW,
                    request,
                    id=name,
                    task_queue=TASK_QUEUE,
                    task_timeout=_TASK_TIMEOUT,
                    result_type=RunResult,
                    # The reply to a start may be lost: its repeat must not run it all again.
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    rpc_timeout=_RPC_TIMEOUT,
                )
            except WorkflowAlreadyStartedError:
                return self._temporal.get_workflow_handle(name, result_type=RunResult)
            except RPCError:
                await asyncio.sleep(_AGAIN_S)

    @staticmethod
    async def _follow(run: Run, handle: Handle) -> None:
        while run.result is None and not run.trouble:
            try:
                run.result = await handle.result()
            except WorkflowFailureError as failed:
                run.trouble = f"failed: {failed.cause}"
            except RPCError:
                await asyncio.sleep(_AGAIN_S)

    async def _held_up_by(self, run: Run) -> str:
        with suppress(OnwardError):
            found = await look(self._temporal, run.conversation.name)
            waits = [f"{each.name}: {each.last_failure or 'at work'}" for each in found.pending]
            return "; ".join(waits) or "nothing is pending"
        return "Temporal does not answer"
