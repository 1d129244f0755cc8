"""What a business key holds outlives who put it there: a run of the same name, a doubt, a wipe."""

import asyncio
import uuid
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from people import say_in_time, waiting

from activities import tools
from onward import NotSent, tool
from onward.identity import business_position, fingerprint, shared_hash
from onward.local_services import RedisServer
from onward.messages import EffectClass, RunRequest, RunResult
from onward.names import WORKFLOW
from onward.testing import wait_until
from onward.tools import Tool

pytestmark = pytest.mark.replay
SHORT_S = 0.2


def mailer(sent: list[str], *, takes_s: float = 0, **options: Any) -> Tool[..., Any]:
    """Make a tool that sends a mail once for each address."""

    @tool(key_from=lambda call: call["to"], **options)
    async def mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        await asyncio.sleep(takes_s)
        return "sent"

    return mail


async def started_again(run: Run) -> Run:
    """Start a run of the same name, with the same prompt."""
    request = RunRequest(prompt=f"Go. [script:{run.name}]", agent="tester")
    handle = await run.bench.temporal.start_workflow(
        WORKFLOW, request, id=run.name, task_queue=run.bench.queue, result_type=RunResult
    )
    return Run(run.bench, run.name, handle)


async def test_a_run_of_the_same_name_is_another_run(bench: Bench) -> None:
    """What a terminated run's call still does, its successor waits for and does not do again."""
    to, sent = uuid.uuid4().hex, list[str]()
    async with bench.worker(app_of(mailer(sent, takes_s=3, key_scope="everywhere"))):
        run = await bench.start(uses(("mail", {"to": to})), says())
        await wait_until(lambda: sent, 20, what="the mail")
        await run.handle.terminate()
        bench.api.scripts[run.name] = bench.script(uses(("mail", {"to": to})), says())
        await (await started_again(run)).ended()
    assert sent == [to]


async def test_a_key_that_is_asked_for_again_still_expires(bench: Bench) -> None:
    """The 90 days begin anew with each call that asks; no key stays for ever."""
    to, sent = uuid.uuid4().hex, list[str]()
    app = app_of(mailer(sent, effect="keyed", key_scope="everywhere"))
    for _ in "ab":
        await bench.run(app, uses(("mail", {"to": to})), says())
    key = shared_hash(bench.temporal.namespace, business_position("mail", to))
    assert sent == [to]
    assert await bench.redis.pttl(key) > 0


@pytest.mark.parametrize(
    ("effect", "error", "in_doubt"),
    [("at_most_once", NotSent("away"), ()), ("keyed", TimeoutError(), ("1.1", "2.1"))],
)
async def test_a_call_that_is_given_up_tells_who_asks_for_the_same(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    effect: EffectClass,
    error: Exception,
    in_doubt: tuple[str, ...],
) -> None:
    """What was never sent may be sent by the next call; what may have happened is in doubt."""
    monkeypatch.setattr(tools, "_MOST_REQUESTS", 1)
    asked = list[str]()

    @tool(effect=effect, key_from=lambda call: call["to"])
    async def mail(to: str) -> str:
        """Send a mail."""
        asked.append(to)
        if len(asked) == 1:
            raise error
        return "sent"

    twice = [uses(("mail", {"to": "first"}))] * 2
    run = await bench.run(app_of(mail), *twice, says())
    assert run.result is not None
    assert run.result.in_doubt == in_doubt
    assert len(asked) == (1 if in_doubt else 2)


async def test_a_doubt_that_was_settled_frees_no_key_of_another_call(
    bench: Bench, own_redis: RedisServer
) -> None:
    """A call in doubt before it asked for the key, settled as failed, then a wipe: still held."""
    sent, given = list[str](), {"to": "first"}
    bench.takeover_s = 0.6
    mail = mailer(sent, moves_money=True, timeout_s=SHORT_S)
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(mail)):
            late = uses(("mail", given), delay_s=1)
            run = await bench.start(uses(("mail", given)), late, late, says())
            await wait_until(lambda: len(run.requests) >= 2, 20, what="step 2")
            fp = fingerprint("mail", '{"to":"first"}')
            ledger = bench.ledger(run)
            await ledger.doubt("2.1", fp=fp, cls="at_most_once", token="dead", why="owner_lost")
            await waiting(run)
            await say_in_time(run, "2.1", "failed")
            await wait_until(lambda: len(run.requests) >= 3, 20, what="step 3")
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            await run.ended()
    assert sent == ["first"]


@pytest.mark.parametrize("effect", ["keyed", "at_most_once"])
async def test_what_the_key_knows_of_a_lost_attempt_is_no_doubt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, effect: EffectClass
) -> None:
    """Lost between the key's record and the call's own: the call has its result, as its own."""
    monkeypatch.setenv("FP", f"f8:1:raise,f12:{900 + len(effect)}:raise")
    bench.takeover_s, sent = 1.0, list[str]()
    app = app_of(mailer(sent, effect=effect))
    run = await bench.run(app, uses(("mail", {"to": "first"})), says())
    assert run.result is not None
    assert (run.result.in_doubt, sent) == ((), ["first"])
    assert "asked for the same" not in run.requests[-1].body
