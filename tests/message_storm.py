"""A storm: many people say much to one run, some of it twice, while its workers are killed."""

import asyncio
import json
import os
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent_runs import Run, says, uses
from crash_runs import CrashBench
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError

from onward.client import ConnectError, RunHandle, UsageError
from onward.connection import Connection, configured_target
from onward.messages import Message, RunResult
from onward.settings import Settings
from onward.testing import wait_until
from onward.testing.messages_api import Asked, Step
from onward.testing.warm import WarmWorker

SENDERS, WORKERS = 4, 2
_APPROVALS_A_STEP = 3
_LAST = 5
"""Messages that come while Claude says its last words, over and over."""


@dataclass(frozen=True)
class Plan:
    """How much is said, and how often workers are killed."""

    messages: int
    approvals: int
    kills: int
    seed: int
    history_events: int = 60


@dataclass
class Storm:
    """One run, those who talk to it, and those who kill its workers."""

    bench: CrashBench
    plan: Plan
    run: Run
    accepted: list[str] = field(default_factory=list[str])
    """Texts of the messages that the run took, as their senders were told; so the next ones."""
    refused: list[str] = field(default_factory=list[str])
    approved: set[str] = field(default_factory=set[str])
    again: int = 0
    """Times that something was said once more."""

    @classmethod
    async def brew(cls, bench: CrashBench, plan: Plan) -> "Storm":
        """Start the run."""
        run = await bench.bench.start(max_steps=100_000, max_tokens_total=10**12, max_cost_usd=1000)
        bench.bench.api.scripts[run.name] = plan_of_claude(run, plan)
        return cls(bench, plan, run)

    async def rage(self) -> RunResult:
        """Let it rage to the run's end."""
        people = [self._sender(number) for number in range(SENDERS)]
        async with AsyncExitStack() as stack:
            workers = [await stack.enter_async_context(self._worker()) for _ in range(WORKERS)]
            async with asyncio.TaskGroup() as group:
                killer = group.create_task(self._killer(stack, workers))
                approver = group.create_task(self._approver())
                await asyncio.gather(*people)
                result = await self.run.ended()
                await killer
                approver.cancel()
        return result

    # ---- people

    async def _sender(self, number: int) -> None:
        chance = self._chance("sender", number)
        mine = range(number, self.plan.messages, SENDERS)
        for each in mine:
            await self._send(f"m-{each}", f"message {each}.")
            if chance.random() < 0.2:
                self.again += 1
                await self._send(f"m-{chance.choice(mine[: mine.index(each) + 1])}", "")
            await asyncio.sleep(chance.uniform(0, 0.05))  # people talk at random moments

    async def _send(self, name: str, text: str) -> None:
        while True:
            try:
                await self._handle.send(text or "something else.", id=name)
            except ConnectError:  # nobody answered for long: the same id again does no harm
                self.again += 1
            except UsageError:
                self.refused += [text] if text else []
                return
            else:
                self.accepted += [text] if text else []
                return

    async def _approver(self) -> None:
        chance = self._chance("approver", 0)
        while True:
            with suppress(ConnectError):
                for waiting in (await self._handle.status()).waiting:
                    await self._approve(waiting.call, times=chance.choice((1, 1, 2)))
            await asyncio.sleep(chance.uniform(0, 0.2))

    async def _approve(self, call: str, *, times: int) -> None:
        """Approve under one update id, also where nobody says whether it was heard."""
        handle: Any = self.run.handle
        said = {"call": call, "by": "storm"}
        while times:
            try:
                await handle.execute_update("approve", said, id=f"approve-{call}")
            except (RPCError, WorkflowUpdateRPCTimeoutOrCancelledError):
                self.again += 1
            else:
                self.approved.add(call)
                times -= 1

    @property
    def _handle(self) -> RunHandle:
        client = self.bench.bench.temporal
        return RunHandle(Connection(client, configured_target(), Settings()), self.run.name)

    def _chance(self, *of: object) -> random.Random:
        return random.Random(f"{self.plan.seed} {of}")  # noqa: S311  (no secret)

    # ---- crashes

    def _worker(self) -> Any:
        env = {
            "ONWARD_APP": "approval_app:app",
            "ONWARD_HISTORY_EVENTS": str(self.plan.history_events),
            "ONWARD_PAYLOAD_DIR": os.environ["ONWARD_PAYLOAD_DIR"],  # as the bench has set it
        }
        return self.bench.worker(**env)

    async def _killer(self, stack: AsyncExitStack, workers: list[WarmWorker]) -> None:
        chance, all_said = self._chance("killer", 0), self.plan.messages
        for kill in range(self.plan.kills):
            due = all_said * (kill + 1) // (self.plan.kills + 1)
            said = partial(self._has_said, due)
            await wait_until(said, 600, what=f"{due} messages")
            victim = workers.pop(chance.randrange(len(workers)))
            await victim.kill()
            workers.append(await stack.enter_async_context(self._worker()))

    def _has_said(self, due: int) -> bool:
        return len(self.accepted) + len(self.refused) >= due


def plan_of_claude(run: Run, plan: Plan) -> Any:
    """Let Claude refund now and then, look in between, and stop where nearly all is said."""

    def answer(asked: Asked) -> Step:
        told = sum(map(len, texts_of(asked.body["messages"])))
        refunds = json.dumps(asked.body).count('"refund", "input"')
        due = min(plan.approvals, plan.approvals * told * 2 // plan.messages + 1)
        if refunds < due:
            orders = range(refunds, min(refunds + _APPROVALS_A_STEP, plan.approvals))
            return uses(*(("refund", {"order": f"{run.name}-{order}"}) for order in orders))
        if told < plan.messages - _LAST:
            return uses(("look", {"at": asked.step}), delay_s=0.05)
        return says("That is all. " * 4, chunk_delay_s=0.1)

    return answer


def texts_of(messages: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """What people said after the prompt, by user turn."""
    turns = [m["content"] for m in messages if m["role"] == "user"][1:]
    return [[block["text"] for block in turn if block["type"] == "text"] for turn in turns]


async def taken_in_order(run: Run) -> list[str]:
    """Texts of the messages in the order in which the run took them, by its histories."""
    found: dict[str, str] = {}
    for history in await run.chain():
        for event in history.events:
            request = event.workflow_execution_update_accepted_event_attributes.accepted_request
            if request.input.name == "send":
                payload = request.input.args.payloads[0]
                said = Message.model_validate_json(payload.data)
                found.setdefault(said.id, said.text)
    return list(found.values())
