"""Redis loses everything twenty times in one run: history is enough, and outranks it."""

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from temporalio.api.history.v1 import HistoryEvent

from onward import ToolContext, tool
from onward.local_services import RedisServer
from onward.testing import wait_until

pytestmark = pytest.mark.timeout(180)
WIPES = 20
LONG = "long " * 20_000
"""Of a result that is a file of the payload store, and of which Claude sees a part."""
TOOLS = ("look", "act", "book", "shut", "once")
SEED = 20


class Outside:
    """The other side of the tools, which counts what happened."""

    def __init__(self) -> None:
        self.by_key = dict[str, int]()
        self.without_key = Counter[int]()
        self.fences = dict[str, int]()

        @tool(effect="read")
        async def look(n: int) -> str:
            """Look."""
            return f"look {n}: {LONG}"

        @tool(effect="keyed")
        async def act(n: int, ctx: ToolContext) -> str:
            """Act, at a side that honours keys."""
            self.by_key.setdefault(ctx.idempotency_key, n)
            return f"act {n}: {LONG}"

        @tool(effect="transactional")
        async def book(n: int, ctx: ToolContext) -> str:
            """Write effect and key in one transaction."""
            self.by_key.setdefault(ctx.idempotency_key, n)
            return f"book {n}"

        @tool(effect="sealed", seal=self.seal)
        async def shut(n: int, ctx: ToolContext) -> str:
            """Act once the seal shuts out what was sent before."""
            if ctx.fence >= self.fences[ctx.idempotency_key]:
                self.by_key.setdefault(ctx.idempotency_key, n)
            return f"shut {n}"

        @tool(in_doubt="model")
        async def once(n: int) -> str:
            """Act, without any help against a second time."""
            self.without_key[n] += 1
            return f"once {n}"

        self.app = app_of(look, act, book, shut, once)

    async def seal(self, call: dict[str, Any], ctx: ToolContext) -> str | None:
        """Say whether the call happened, and refuse every earlier fence from now on."""
        key = ctx.idempotency_key
        self.fences[key] = max(ctx.fence, self.fences.get(key, 0))
        return f"shut {call['n']}" if key in self.by_key else None


def tool_of(n: int) -> str:
    """The tool of step `n`."""
    return TOOLS[n % len(TOOLS)]


def results(run: Run) -> dict[str, str]:
    """What Claude was told last of each call, by tool and number."""
    messages = json.loads(run.requests[-1].body)["messages"]
    blocks = [block for message in messages[1:] for block in message["content"]]
    asked = {b["id"]: f"{b['name']} {b['input']['n']}" for b in blocks if b["type"] == "tool_use"}
    return {
        asked[block["tool_use_id"]]: block["content"]
        for block in blocks
        if block["type"] == "tool_result"
    }


def refill_bytes(events: list[HistoryEvent]) -> list[int]:
    """Bytes of history from each refill's beginning to the next activity's."""
    scheduled = [
        (place, event.activity_task_scheduled_event_attributes.activity_type.name)
        for place, event in enumerate(events)
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    places = [*(place for place, _ in scheduled), len(events)]
    return [
        sum(event.ByteSize() for event in events[place : places[number + 1]])
        for number, (place, name) in enumerate(scheduled)
        if name == "refill"
    ]


async def test_twenty_wipes_change_nothing(bench: Bench, own_redis: RedisServer) -> None:
    """At any moment of a run that continues as new: the same answer, and each effect once.

    At_most_once at most once, and in doubt in so many words where a wipe hid it.
    """
    bench.history_events, outside, chance = 120, Outside(), random.Random(SEED)  # noqa: S311
    steps = [uses((tool_of(n), {"n": n}), delay_s=0.05) for n in range(WIPES + 2)]
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(outside.app, max_cached_workflows=10):
            run = await bench.start(*steps, says("All done."))
            for count in range(1, WIPES + 1):
                await wait_until(_asked(run, count), 60, what=f"request {count}")
                await asyncio.sleep(chance.uniform(0, 0.15))
                await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            result = await run.ended()
    assert (result.outcome, result.text, result.steps) == ("completed", "All done.", WIPES + 3)
    told = results(run)
    for n in range(WIPES + 2):
        words = told[f"{tool_of(n)} {n}"]
        assert words.startswith(f"{tool_of(n)} {n}") or tool_of(n) == "once"
    certain = {n for n in range(WIPES + 2) if tool_of(n) in {"act", "book", "shut"}}
    assert Counter(outside.by_key.values()) == Counter(certain)
    for n in (n for n in range(WIPES + 2) if tool_of(n) == "once"):
        done = told[f"once {n}"].startswith("once")
        assert outside.without_key[n] == 1 if done else outside.without_key[n] <= 1
        assert done or told[f"once {n}"].startswith("OUTCOME UNKNOWN")
    chain = await run.chain()
    added = [size for history in chain for size in refill_bytes(list(history.events))]
    assert len(chain) > 1
    assert len(added) >= WIPES / 2
    assert max(added) <= 2048


def _asked(run: Run, count: int) -> Any:
    return lambda: len(run.requests) >= count
