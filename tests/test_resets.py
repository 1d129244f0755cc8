"""Temporal's own reset, at any point of a long run, repeats no effect, whatever Redis lost."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from agent_runs import Bench, Run, app_of, says, uses
from people import say, waiting
from redis.asyncio import Redis

from onward import ToolContext, tool
from onward.messages import RunResult
from onward.testing.messages_api import Step

pytestmark = [pytest.mark.replay, pytest.mark.timeout(300)]

ASKS_AT = 10
SEED = 4
FINISHED = "workflow_task_completed_event_attributes"
APPROVED = "workflow_execution_update_accepted_event_attributes"


class Outside:
    """The other side of the tools: it honours keys, and counts what has no key."""

    def __init__(self) -> None:
        self.by_key = dict[str, int]()
        self.without_key = list[int]()

        @tool(effect="read")
        async def look(n: int) -> str:
            """Look."""
            return f"saw {n}"

        @tool(effect="keyed")
        async def act(n: int, ctx: ToolContext) -> str:
            """Act, once for each key."""
            self.by_key.setdefault(ctx.idempotency_key, n)
            return f"did {n}"

        @tool(in_doubt="model")
        async def once(n: int) -> str:
            """Act, without any help against a second time."""
            self.without_key.append(n)
            return f"did {n} once"

        @tool(effect="keyed", ask="always")
        async def pay(n: int, ctx: ToolContext) -> str:
            """Pay, when a person says so."""
            self.by_key.setdefault(ctx.idempotency_key, n)
            return f"paid {n}"

        self.app = app_of(look, act, once, pay)

    @property
    def effects(self) -> Counter[int]:
        """How often each effect happened, by its number."""
        return Counter([*self.by_key.values(), *self.without_key])


def script(steps: int) -> Sequence[Step]:
    names = ["look", "act", "once"]
    asked = [(names[n % 3] if n != ASKS_AT else "pay", {"n": n}) for n in range(1, steps)]
    return [*(uses(call) for call in asked), says()]


async def ended(run: Run, *, asks: bool) -> RunResult:
    """Wait for the end. What was said before a call waits is refused: so it is said again."""
    if asks:
        await waiting(run)
        await say(run, "approve", f"{ASKS_AT}.1")
    return await run.ended()


@pytest.mark.parametrize(
    ("steps", "points"), [(24, 4), pytest.param(100, 10, marks=pytest.mark.long)]
)
async def test_a_reset_repeats_no_effect(bench: Bench, steps: int, points: int) -> None:
    """Random points of a run, what people said applied again; every other one after a wipe.

    After a wipe the steps beyond the point are asked anew; what has no key is then in doubt, and
    never done again.
    """
    outside, chance = Outside(), random.Random(SEED)  # noqa: S311  (no secret)
    bench.history_events = 100_000  # one history with all the points
    redis: Redis = bench.redis
    async with bench.worker(outside.app, max_cached_workflows=20):
        run = await bench.start(*script(steps), max_steps=steps)
        await ended(run, asks=True)
        first = outside.effects
        kinds = [str(e.WhichOneof("attributes")) for e in (await run.history()).events]
        asked = kinds[: kinds.index(APPROVED)].count(FINISHED)
        for number, point in enumerate(chance.sample(range(kinds.count(FINISHED)), points)):
            if number % 2:
                await redis.delete(bench.ledger(run).key)
            result = await ended(await run.reset_to_task(point), asks=point < asked)
            assert (result.outcome, result.steps) == ("completed", steps), (number, point)
            assert outside.effects == first, (number, point)
    assert first == Counter(n for n in range(1, steps) if n % 3 or n == ASKS_AT)


async def test_a_cancel_that_is_applied_again_ends_the_run_cleanly(bench: Bench) -> None:
    """The signal comes before the steps that it once came after: none of them is done again."""
    outside = Outside()
    async with bench.worker(outside.app):
        run = await bench.start(*(uses((name, {"n": 1})) for name in ("act", "once", "pay")))
        await waiting(run)
        await run.handle.signal("cancel")
        assert (await run.ended()).outcome == "cancelled"
        result = await (await run.reset_to_task(1)).ended()
    assert (result.outcome, result.in_doubt) == ("cancelled", ())
    assert outside.effects == Counter({1: 2})
