"""`App(on_waiting=…)`: the app hears what begins to wait for a person, and can do no harm by it."""

import asyncio
import functools
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_runs import MODEL, Bench, Run, says, uses
from crash_runs import CrashBench
from people import say, waiting

from onward import Agent, App, WaitingNotice, tool
from onward.errors import AppError
from onward.testing import wait_until

pytestmark = pytest.mark.timeout(90)

Hook = Callable[[WaitingNotice], Awaitable[object]]


@tool(ask=lambda call: call["cents"] > 100)
async def refund(order: str, cents: int) -> str:
    """Refund an order."""
    return f"refunded {cents} of {order}"


@tool(moves_money=True, timeout_s=0.5)
async def pay_out(to: str) -> str:
    """Pay out, at a service that does not answer."""
    raise httpx2.ReadTimeout(to)


def app_with(hook: Hook, *tools: Any, **options: Any) -> App:
    agent = Agent("tester", model=MODEL, tools=tools or (refund,), **options)
    return App(agent, on_waiting=hook)


class Heard:
    """A hook that keeps what it is told, and fails for some calls a few times."""

    def __init__(self, fails: dict[str, int] | None = None) -> None:
        self.notices, self._fails = list[WaitingNotice](), fails or {}
        self.threads = set[threading.Thread]()

    async def __call__(self, notice: WaitingNotice) -> None:
        self.notices.append(notice)
        self.threads.add(threading.current_thread())
        if self.calls.count(notice.call) <= self._fails.get(notice.call, 0):
            raise RuntimeError("the chat is down")

    @property
    def calls(self) -> list[str]:
        return [notice.call for notice in self.notices]


def asks(*orders: str) -> Any:
    return uses(*(("refund", {"order": order, "cents": 500}) for order in orders))


async def test_an_approval_is_told_with_what_a_person_needs(bench: Bench) -> None:
    """Who asks, for what, why, since when, and what to type; once, and apart from the worker."""
    heard, before = Heard(), datetime.now(UTC)
    async with bench.worker(app_with(heard)):
        run = await bench.start(asks("A-7"), says())
        await wait_until(lambda: heard.notices, 20, what="a notice")
        await say(run, "approve", "1.1")
        await run.ended()
    (notice,) = heard.notices
    assert (notice.run, notice.agent, notice.kind) == (run.name, "tester", "approval")
    assert (notice.call, notice.tool) == ("1.1", "refund")
    assert "A-7" in notice.summary
    assert notice.why
    assert '"order"' in notice.input
    assert timedelta() <= notice.since - before < timedelta(seconds=30)
    assert (notice.expires, notice.otherwise) == (None, "deny")
    assert f"approve {run.name} 1.1" in notice.how_to_answer
    assert threading.current_thread() not in heard.threads
    await run.replay()


async def test_a_doubt_and_a_limit_are_told_too(bench: Bench) -> None:
    """Whatever a run waits for a person about."""
    bench.takeover_s, heard = 1.0, Heard()
    async with bench.worker(app_with(heard, pay_out, at_limit="wait")):
        run = await bench.start(uses(("pay_out", {"to": "Ana"})), says(), max_steps=1)
        await wait_until(lambda: heard.notices, 20, what="the doubt being told")
        await say(run, "resolve", "1.1", outcome="done")
        await wait_until(lambda: heard.notices[1:], 20, what="the limit being told")
        await run.handle.signal("cancel")
        await run.ended()
    doubt, limit = heard.notices
    assert (doubt.kind, doubt.call, doubt.tool) == ("doubt", "1.1", "pay_out")
    assert f"resolve {run.name} 1.1" in doubt.how_to_answer
    assert (limit.kind, limit.call, limit.tool) == ("limit", "limit", "limit_steps")
    assert f"limit {run.name} --max-steps" in limit.how_to_answer


async def test_a_notice_that_failed_is_given_again(bench: Bench) -> None:
    """A chat that is down for a moment loses nothing; who was told is not told again."""
    heard = Heard(fails={"1.2": 1})
    async with bench.worker(app_with(heard)):
        run = await bench.start(asks("A-7", "A-8"), says())
        await wait_until(lambda: heard.calls.count("1.2") == 2, 20, what="a second notice")
        for call in ("1.1", "1.2"):
            await say(run, "approve", call)
        await run.ended()
    assert sorted(heard.calls) == ["1.1", "1.2", "1.2"]


_NOTICE: Any = None


async def _fails(notice: WaitingNotice) -> None:
    raise ValueError(notice)


async def _hangs(notice: WaitingNotice) -> None:
    await asyncio.sleep(3600 + len(notice.call))


async def _blocks(notice: WaitingNotice) -> None:
    time.sleep(5 + len(notice.call))  # noqa: ASYNC251  (that is what is tested)


async def _leaves(notice: WaitingNotice) -> None:
    raise SystemExit(notice.call)


@pytest.mark.parametrize("hook", [_fails, _hangs, _blocks, _leaves])
async def test_a_hook_that_goes_wrong_holds_nothing_up(bench: Bench, hook: Hook) -> None:
    """Approval and end come as fast as with none, and the worker lives."""
    async with bench.worker(app_with(hook)):
        run = await bench.start(asks("A-7"), says())
        await waiting(run)
        said = time.monotonic()
        await say(run, "approve", "1.1")
        result = await run.ended()
        took_s = time.monotonic() - said
    assert result.outcome == "completed"
    assert took_s < 5


async def test_why_a_hook_failed_is_shown(bench: Bench) -> None:
    """Who looks at the run, in Temporal or with `status`, sees that nobody was told, and why."""
    async with bench.worker(app_with(_fails)):
        run = await bench.start(asks("A-7"), says())
        await wait_until(run.failing_activity, 20, what="a failure that is shown")
        said = await run.failing_activity()
        await run.handle.signal("cancel")
        await run.ended()
    assert said.startswith("the app's on_waiting failed for 1.1: ValueError(")


async def test_a_deploy_without_the_hook_leaves_runs_alone(bench: Bench) -> None:
    """A run that began with one goes on in workers that have none."""
    async with bench.worker(app_with(Heard())):
        run = await bench.start(uses(("refund", {"order": "A", "cents": 500}), delay_s=1), says())
        await wait_until(lambda: run.requests, 20, what="the request")
    app = app_with(Heard())
    app.on_waiting = None
    async with bench.worker(app):
        await waiting(run)
        await say(run, "approve", "1.1")
        await run.ended()
    assert "notify_people" in await run.activities()


@pytest.mark.crash
async def test_a_worker_that_is_killed_in_the_hook(crash_bench: CrashBench, tmp_path: Path) -> None:
    """Another worker tells it again: a person is told at least once."""
    told = tmp_path / "told"
    told.mkdir()
    env = {"ONWARD_APP": "notify_app:app", "NOTICES": str(told), "ONWARD_TAKEOVER_S": "1"}
    async with crash_bench.worker(**env) as first:
        run = await crash_bench.bench.start(uses(("act", {})), says())
        await wait_until(lambda: _told_by(told, run, first.pid), 30, what="the first notice")
        await first.kill()
        async with crash_bench.worker(**env) as second:
            await wait_until(lambda: _told_by(told, run, second.pid), 30, what="another notice")
            await say(run, "approve", "1.1")
            assert (await run.ended()).outcome == "completed"


def _told_by(told: Path, run: Run, pid: int) -> bool:
    return (told / f"{pid}-{run.name}-1.1").exists()


# ---- what an app may give


def _sync(notice: WaitingNotice) -> None:
    del notice


async def _takes_none() -> None: ...


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (_sync, "`async def` function"),
        ("https://chat.example", "`async def` function"),
        (_takes_none, "cannot be called with one WaitingNotice"),
        (functools.partial(_fails, _NOTICE), "cannot be called with one"),
    ],
)
def test_what_is_no_hook_is_refused(hook: Any, said: str) -> None:
    """When the app is made, not when the first approval waits and nobody hears of it."""
    with pytest.raises(AppError, match=said):
        app_with(hook)


def test_what_is_a_hook_is_taken() -> None:
    """An async function, however it is made; or none."""
    for hook in (_fails, functools.partial(_fails), Heard(), None):
        assert App(Agent("a", model=MODEL), on_waiting=hook).on_waiting is hook
