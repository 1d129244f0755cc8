"""A tool that names what a call asks for: asked twice, it is done once."""

import json
import uuid
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses

from onward import Rejected, ToolContext, tool
from onward.local_services import RedisServer
from onward.testing import wait_until

pytestmark = pytest.mark.replay


class Mailer:
    """A tool that sends a mail once for each address, and the keys it sent with."""

    def __init__(self, refuses: int = 0, **options: Any) -> None:
        self.sent, self._refuses = list[str](), refuses

        @tool(key_from=lambda call: call["to"].lower(), **options)
        async def mail(to: str, text: str, ctx: ToolContext) -> str:
            """Send a mail."""
            self.sent.append(ctx.idempotency_key)
            if len(self.sent) <= self._refuses:
                raise Rejected("mailbox full")
            return f"sent {text} to {to}"

        self.tool = mail


def told(run: Run) -> list[Any]:
    """What Claude was told last, result by result."""
    return [
        block["content"] for block in json.loads(run.requests[-1].body)["messages"][-1]["content"]
    ]


MAIL, AGAIN = ("mail", {"to": "First", "text": "hi"}), ("mail", {"to": "first", "text": "hello"})


@pytest.mark.parametrize("effect", ["keyed", "at_most_once"])
async def test_the_same_asked_twice_is_done_once(bench: Bench, effect: str) -> None:
    """The second call gets the first one's result, and Claude is told that it is that."""
    mailer = Mailer(effect=effect)
    run = await bench.run(app_of(mailer.tool), uses(MAIL), uses(AGAIN), says())
    assert len(mailer.sent) == 1
    ((note, first),) = told(run)
    assert f"call {run.name} 1.1 asked for the same" in note["text"]
    assert first["text"] == "sent hi to First"
    await run.replay()


async def test_what_was_refused_may_be_asked_again(bench: Bench) -> None:
    """A refused call did nothing, so the next one that asks for the same runs."""
    mailer = Mailer(effect="keyed", refuses=1)
    run = await bench.run(app_of(mailer.tool), uses(MAIL), uses(MAIL), says())
    assert len(mailer.sent) == 2
    assert told(run) == ["sent hi to First"]


async def test_another_run_acts_anew_unless_the_tool_says_everywhere(bench: Bench) -> None:
    """By default a key is a run's own; with key_scope everywhere it is the deployment's."""
    name = {"to": f"first-{uuid.uuid4().hex}", "text": "hi"}
    own, shared = Mailer(effect="keyed"), Mailer(effect="keyed", key_scope="everywhere")
    runs = [
        await bench.run(app_of(mailer.tool), uses(("mail", name)), says())
        for mailer in (own, own, shared, shared)
    ]
    assert (len(own.sent), len(set(own.sent)), len(shared.sent)) == (2, 2, 1)
    assert "asked for the same" in told(runs[-1])[0][0]["text"]


async def test_a_wiped_ledger_forgets_no_business_key_of_a_run(
    bench: Bench, own_redis: RedisServer
) -> None:
    """History tells what was asked for, so a call after the wipe is recognised all the same."""
    mailer = Mailer(effect="at_most_once")
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(mailer.tool)):
            run = await bench.start(uses(MAIL), uses(AGAIN, delay_s=1), says())
            await wait_until(lambda: len(run.requests) >= 2, 20, what="step 2")
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            result = await run.ended()
    assert (result.in_doubt, len(mailer.sent)) == ((), 1)
    assert "asked for the same" in told(run)[0][0]["text"]


async def test_a_call_that_cannot_be_named_is_not_run(bench: Bench) -> None:
    """Without its name nobody could tell it from a repetition."""

    @tool(effect="keyed", key_from=lambda call: call["missing"])
    async def act() -> str:
        """Act."""
        raise AssertionError("must not run")

    run = await bench.run(app_of(act), uses(("act", {})), says())
    assert "cannot be told (KeyError" in told(run)[0]
    assert "The tool's key_from failed" in told(run)[0]
