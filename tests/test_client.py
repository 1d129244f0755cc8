"""Runs from people's own code, by `onward.client`."""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from agent_runs import ASKED, Bench, app_of, says, uses
from temporalio.client import Client as TemporalClient

import onward.client
from onward import tool
from onward.client import (
    Client,
    ConnectError,
    LimitOverrides,
    NoSuchRun,
    RunHandle,
    RunStatus,
    UsageError,
)
from onward.testing import wait_until


@tool(effect="keyed", ask="always")
async def refund(order: int, cents: int) -> str:
    """Refund."""
    return f"refunded {cents} of order {order}"


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


APP = app_of(refund, look)


@pytest_asyncio.fixture(loop_scope="session")
async def client(bench: Bench) -> AsyncGenerator[Client]:
    """A client, with a worker of the app beside it."""
    async with bench.worker(APP, **ASKED):
        yield await onward.client.connect()


def scripted(bench: Bench, *steps: Any) -> tuple[str, str]:
    """Let Claude answer with these steps; returns a run's id, and its prompt."""
    name = f"run-{uuid.uuid4().hex[:12]}"
    bench.api.scripts[name] = bench.script(*steps)
    return name, f"Go. [script:{name}]"


async def begun(client: Client, bench: Bench, *steps: Any) -> RunHandle:
    name, prompt = scripted(bench, *steps)
    return await client.start(prompt, agent="tester", run_id=name)


async def until(run: RunHandle, seen: Callable[[RunStatus], object], what: str) -> RunStatus:
    """Wait until the run's status is so."""
    found: list[RunStatus] = []

    async def so() -> bool:
        found[:] = [await run.status()]
        return bool(seen(found[0]))

    await wait_until(so, 30, what=what)
    return found[0]


async def waits(run: RunHandle, call: str) -> None:
    await until(run, lambda now: call in [each.call for each in now.waiting], f"{call} waiting")


async def test_a_job_is_started_once_and_told_to_its_end(client: Client, bench: Bench) -> None:
    """Asked for again it attaches, and once it has ended nothing is started; each look agrees."""
    name, prompt = scripted(bench, uses(("look", {})), uses(("refund", {"order": 1, "cents": 5})))
    asked: Any = {"agent": "tester", "run_id": name, "limits": LimitOverrides(max_steps=2)}
    run = await client.start(prompt, **asked)
    again = await client.start(prompt, **asked)
    assert (run.how, again.how) == ("started", "attached")
    await waits(run, "2.1")
    assert await run.cancel("enough", by="ops")
    result = await run.result()
    assert (result.outcome, result.detail) == ("cancelled", "cancelled: enough (by ops)")
    assert (await client.start(prompt, **asked)).how == "ended"
    report = await client.attach(name).report()
    assert (report.ended and report.ended.result, report.run.id) == (result, name)
    spent = await run.spend()
    assert (spent.complete, spent.spend) == (True, result.spend)
    assert not await run.cancel()
    with pytest.raises(UsageError, match="is that of another job"):
        await client.start("Something else.", **asked)


async def test_people_decide_about_calls(client: Client, bench: Bench) -> None:
    """One is approved as it is, one as it was edited, one denied; what was decided comes back."""
    calls = [("refund", {"order": n, "cents": 500}) for n in (1, 2, 3)]
    run = await begun(client, bench, uses(*calls), says())
    await waits(run, "1.3")
    approved = await run.approve("1.1", by="ops")
    assert (approved.waited.call, approved.said.by) == ("1.1", "ops")
    edited = await run.approve("1.2", edit={"order": 2, "cents": 300})
    assert "cents=300" in edited.waited.summary
    assert "@" in edited.said.by
    denied = await run.deny("1.3", "too much", view="")
    assert denied.waited.input == '{"order":3,"cents":500}'
    assert (await run.result()).outcome == "completed"
    with pytest.raises(UsageError, match=r"has ended \(completed\).*fork"):
        await run.approve("1.1")


async def test_claude_is_told_something_and_the_run_paused(client: Client, bench: Bench) -> None:
    """A paused run waits after its step; what is sent meanwhile Claude sees then, and once."""
    run = await begun(client, bench, uses(("refund", {"order": 1, "cents": 5})), says())
    await waits(run, "1.1")
    await run.pause("lunch", by="ops")
    first = await run.send("Hurry.", id="m-1")
    assert await run.send("Hurry.", id="m-1") == first
    second = await run.send("Or not.")
    assert (first.unseen, second.unseen) == (1, 2)
    await run.approve("1.1")
    resting = await until(run, lambda now: now.doing == "paused", "the run resting")
    assert resting.state == "paused"
    assert resting.paused
    assert (resting.paused.reason, resting.paused.by, resting.unseen) == ("lunch", "ops", 2)
    await run.resume()
    assert (await run.result()).unseen == ()
    (asked,) = [each.body for each in bench.api.journal.of(run.id)][1:]
    assert (asked.count("Hurry."), asked.count("Or not.")) == (1, 1)


async def test_limits_are_raised_while_it_goes_on(client: Client, bench: Bench) -> None:
    """What is not given stays as it is."""
    run = await begun(client, bench, uses(("refund", {"order": 1, "cents": 5})), says())
    await waits(run, "1.1")
    before = (await run.status()).limits
    limits = await run.limit(LimitOverrides(max_steps=7))
    assert before
    assert limits == before.model_copy(update={"max_steps": 7})
    await run.cancel()
    await run.result()


async def test_runs_are_found_by_what_they_are(client: Client, bench: Bench) -> None:
    """By agent and tag, over a connection that the caller has already."""
    name, prompt = scripted(bench, says())
    tags = {"order": name}
    run = await client.start(prompt, agent="tester", run_id=name, tags=tags)
    await run.result()
    mine = await onward.client.connect(await TemporalClient.connect(address(client)))
    assert (await mine.attach(name).status()).outcome == "completed"

    async def found() -> bool:
        return [run.id for run in await mine.list(agent="tester", tags=tags)] == [name]

    await wait_until(found, 20, what="the run in Temporal's index")


def address(client: Client) -> str:
    return client.connection.target.address


EVERY: dict[str, Callable[[RunHandle], Awaitable[Any]]] = {
    "status": lambda run: run.status(),
    "spend": lambda run: run.spend(),
    "result": lambda run: run.result(),
    "cancel": lambda run: run.cancel(),
    "pause": lambda run: run.pause(),
    "resume": lambda run: run.resume(),
    "send": lambda run: run.send("Hello."),
    "approve": lambda run: run.approve("1.1"),
    "deny": lambda run: run.deny("1.1"),
    "resolve": lambda run: run.resolve("1.1", "done"),
    "limit": lambda run: run.limit(LimitOverrides(max_steps=1)),
}


@pytest.mark.usefixtures("bench")
async def test_a_run_that_nobody_started_is_said_by_each_method() -> None:
    """Whatever is asked of it or said to it: `NoSuchRun`, with its id."""
    run = (await onward.client.connect()).attach("no-such-run")
    for ask in EVERY.values():
        with pytest.raises(NoSuchRun, match="'no-such-run'"):
            await ask(run)


async def test_without_a_worker_nothing_hangs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs one says so, and how to start one; the rest is told or kept by the server."""
    monkeypatch.setattr("onward.reports.QUERY_TIMEOUT", timedelta(seconds=0.3))
    run = await begun(await onward.client.connect(), bench, says())
    for name in ("send", "approve", "deny", "resolve", "limit"):
        with pytest.raises(ConnectError, match=r"no worker.*Start `onward-worker`"):
            await EVERY[name](run)
    assert not (await run.report()).live
    assert not (await run.spend()).complete
    await run.pause()
    await run.resume()
    assert await run.cancel("not needed")
    async with bench.worker(APP, **ASKED):
        assert (await run.result()).detail.startswith("cancelled: not needed (by ")


REFUSED: list[tuple[Callable[[RunHandle], Awaitable[Any]], str]] = [
    (lambda run: run.approve("7.1"), r"waiting: 1\.1 \(approval\)"),
    (lambda run: run.approve("1.1", view="elsewhere"), "not what you saw"),
    (lambda run: run.approve("1.1", edit='{"order": 1,}'), "line 1 column 13"),
    (lambda run: run.approve("1.1", edit="[1]"), "list, expected an object"),
    (lambda run: run.approve("1.1", edit='\ufeff{"x":1}'), "byte order mark"),
    (lambda run: run.approve("1.1", edit={"order": "A"}), "cents"),
    (lambda run: run.resolve("1.1", "done"), "approve it or deny it"),
    (lambda run: run.resolve("1.1", "perhaps"), "outcome is 'perhaps'"),  # type: ignore[arg-type]
    (lambda run: run.send(" \n"), "the message is empty"),
    (lambda run: run.send("x" * 100_001), "at most 100,000 can be sent"),
    (lambda run: run.send("half \ud83d"), "not valid Unicode"),
    (lambda run: run.deny("1.1", "half \ud83d"), "no valid text"),
]


async def test_what_cannot_be_said_changes_nothing(client: Client, bench: Bench) -> None:
    """A call that does not wait, an input that does not fit, no text: said, and it still waits."""
    run = await begun(client, bench, uses(("refund", {"order": 1, "cents": 5})), says())
    await waits(run, "1.1")
    for say, why in REFUSED:
        with pytest.raises(UsageError, match=why):
            await say(run)
    assert [each.call for each in (await run.status()).waiting] == ["1.1"]
    await run.cancel()
    await run.result()
