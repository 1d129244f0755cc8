"""The worker of the cancel matrix: `onward-worker`'s own, with tools and a ledger that can be held.

A run's first call says where its step after that is held: `hold`, with the name of a point. The
worker prints `RUN is at POINT` when a run has come there.
"""

import asyncio
import os
import time
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import httpx2
from bare_worker import build_worker
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.services import Services
from onward import Agent, App, ToolContext, claude, tool
from onward.ledger import Claim, Ledger, Verdict
from onward.messages import RunRef
from onward.own_history import read_added
from onward.redis_server.connection import redis_client
from onward.run_records import Added

LONG_S = 600.0
"""As good as for ever."""
HISTORY_EVENTS = 50
"""More than a run of two steps has."""
_HELD_STEP = "2"
_held = dict[str, str]()
"""Where a run is held, by its id."""


@dataclass(frozen=True)
class Servers:
    """Where the worker's servers are."""

    temporal: str
    redis: str
    claude: str


def at(point: str, run: str) -> str:
    """Say that a run is at a point, as the log does."""
    return f"{run} is at {point}\n"


async def _hold(point: str, run: str) -> None:
    if _held.get(run) == point:
        print(at(point, run), end="", flush=True)  # noqa: T201
        await asyncio.sleep(LONG_S)


class _HeldLedger(Ledger):
    """A ledger whose Redis is slow at a held run's second step."""

    def __init__(self, services: Services, run: RunRef) -> None:
        super().__init__(services.redis, run, strict=services.strict)
        self._name = run.workflow_id

    async def claim(self, step: str, **claimed: Any) -> Claim:
        if step == _HELD_STEP:
            await _hold("claim", self._name)
        claim = await super().claim(step, **claimed)
        if claim.verdict == "done":  # a later attempt, where the first one's lease ran out
            await _hold("recorded", self._name)
        return claim

    async def complete(self, step: str, **told: Any) -> Verdict:
        verdict = await super().complete(step, **told)
        if step == _HELD_STEP:
            await _hold("recorded", self._name)
        return verdict


class _HeldServices(Services):
    def ledger(self, run: RunRef) -> Ledger:
        return _HeldLedger(self, run)


async def _read_slowly(client: Client, workflow_id: str, run_id: str) -> Added:
    await _hold("carry", workflow_id)
    return await read_added(client, workflow_id, run_id)


# ---- tools


@tool(effect="read")
def hold(where: str, ctx: ToolContext) -> str:
    """Say where the run is held; empty: nowhere."""
    _held[ctx.run] = where
    return "looked"


@tool(effect="read")
async def look(ctx: ToolContext) -> str:
    """Look for as long as one lets it."""
    print(at("look", ctx.run), end="", flush=True)  # noqa: T201
    await asyncio.sleep(LONG_S)
    return "seen"


@tool(effect="read", timeout_s=LONG_S)
def stare(ctx: ToolContext) -> str:
    """Look in an activity of its own, on a thread that nobody can stop."""
    print(at("stare", ctx.run), end="", flush=True)  # noqa: T201
    time.sleep(LONG_S)
    return "seen"


async def _post(path: str, order: str, ctx: ToolContext, before_s: float, trouble: str) -> Any:
    print(at("effect", ctx.run), end="", flush=True)  # noqa: T201
    await asyncio.sleep(before_s)
    body = {"order": order, "amount_cents": 500}
    headers = {"Idempotency-Key": ctx.idempotency_key}
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"], timeout=LONG_S) as http:
        reply = await http.post(f"{path}?{trouble}", json=body, headers=headers)
    return reply.raise_for_status().json()


@tool(effect="keyed")
async def refund(order: str, ctx: ToolContext, before_s: float = 0.0, trouble: str = "") -> Any:
    """Refund an order once."""
    return await _post("/refunds", order, ctx, before_s, trouble)


@tool
async def pay_out(order: str, ctx: ToolContext, before_s: float = 0.0, trouble: str = "") -> Any:
    """Pay out, at a service that does not deduplicate."""
    return await _post("/plain/refunds", order, ctx, before_s, trouble)


@tool(effect="keyed", ask="always")
async def refund_when_approved(order: str, ctx: ToolContext) -> Any:
    """Refund an order once a person approves it."""
    return await _post("/refunds", order, ctx, 0.0, "")


TOOLS = (hold, look, stare, refund, pay_out, refund_when_approved)
app = App(Agent("tester", model="claude-sonnet-5-5", tools=TOOLS))


# ---- the worker


def main(servers: Servers, queue: str, takeover_s: float) -> int:
    """Work on a task queue until killed."""
    asyncio.run(_work(servers, queue, takeover_s))
    return 0


async def _work(servers: Servers, queue: str, takeover_s: float) -> None:
    patch("activities.carry.read_added", _read_slowly).start()
    temporal = await Client.connect(servers.temporal, data_converter=pydantic_data_converter)
    async with (
        claude.client(base_url=servers.claude, api_key="test") as anthropic,
        redis_client(servers.redis) as redis,
    ):
        services = _HeldServices(
            app=app,
            redis=redis,
            anthropic=anthropic,
            temporal=temporal,
            strict=True,
            takeover_s=takeover_s,
            history_events=HISTORY_EVENTS,
        )
        async with build_worker(services, queue):
            await asyncio.Event().wait()
