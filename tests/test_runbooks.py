"""Every runbook is true: its incident is made for real, and its commands end it."""

import threading
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agent_double import Cli
from agent_runs import Bench, Run, app_of, connected, says, uses
from crash_runs import CrashBench
from on_call import OnCall
from pages import Reader
from runbook_app import AGENT, HOLD, HOLDS
from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner

from onward import ToolContext, tool
from onward.local_services import RedisServer
from onward.local_services.ports import free_ports
from onward.testing import wait_until
from onward.testing.messages_api import Fault, ScriptedAPI, Step
from onward.tools import Tool
from onward.tools.workspace import prepare
from workflows import scheduling

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

Page = Callable[[str], OnCall]


@pytest_asyncio.fixture(loop_scope="session")
async def on_call(
    bench: Bench,
    own_redis: RedisServer,
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[Page]:
    """Put somebody on call, whose Redis is no other test's."""
    monkeypatch.setenv("ONWARD_REDIS_URL", own_redis.url)
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        yield lambda page: OnCall(bench, own_redis, Reader(page, tmp_path, cli=cli))


class Refunds:
    """A tool that refunds, and the keys of what it did."""

    def __init__(self) -> None:
        self.keys = list[str]()

        @tool(effect="keyed")
        async def refund(order: str, ctx: ToolContext) -> str:
            """Refund an order."""
            self.keys.append(ctx.idempotency_key)
            return f"refunded {order}"

        self.tool: Tool[..., Any] = refund


def refunds(order: str, **fields: Any) -> Step:
    """Make a step in which Claude asks for a refund."""
    return uses(("refund", {"order": order}), **fields)


_UNHEARD = [Fault(hold_s=60)]
"""Claude answers the first request so late that its worker is gone, and the next one at once."""


def asked(run: Run, times: int) -> Callable[[], bool]:
    return lambda: len(run.requests) >= times


async def outcomes(*runs: Run) -> list[str]:
    return [(await run.ended()).outcome for run in runs]


def worker_for(crash_bench: CrashBench, person: OnCall) -> Any:
    """Make what starts worker processes that may be killed."""
    env = {
        "ONWARD_REDIS_URL": person.redis.url,
        "ONWARD_APP": "runbook_app:app",
        AGENT: person.named("support"),
    }
    return partial(crash_bench.worker, **env)


async def test_a_first_look_finds_nothing_wrong_where_nothing_is(
    bench: Bench, on_call: Page
) -> None:
    """Whoever is paged looks first, changes nothing by it, and sees what is well."""
    person, looked = on_call("docs/runbooks/README.md"), threading.Event()

    @tool(effect="read")
    def wait() -> str:
        """Wait until somebody has looked."""
        return "seen" if looked.wait(60) else "nobody looked"

    async with bench.worker(person.app(wait), search_attributes=True):
        run = await person.start("batch-1", uses(("wait", {})), says())
        doctor, waiting, status = await person.types_block("onward doctor")
        assert "1 open run, none held up" in doctor
        assert run.name not in waiting
        assert "state    running" in status
        looked.set()
        assert await outcomes(run) == ["completed"]
    assert person.reader.untyped() == set()


async def test_refunded_twice(crash_bench: CrashBench, on_call: Page) -> None:
    """A service that ignores keys, a worker that dies, two runs: the keys tell which it was."""
    person = on_call("docs/runbooks/refunded-twice.md")
    order, worker = person.named("A-17"), worker_for(crash_bench, person)
    hangs = uses(("refund", {"order": order, "trouble": "delay_after_s=30,0"}))
    async with worker() as first:
        run = await person.start("batch-1", hangs, says(), options="--tag order=A-17")
        await wait_until(lambda: crash_bench.effects(order), 30, what="the first refund")
        await first.kill()
    async with worker():
        again = await person.start("batch-2", refunds(order), says(), options="--tag order=A-17")
        assert await outcomes(run, again) == ["completed"] * 2
        await person.types_block("onward pause")
        waits = await person.start("batch-3", refunds("A-18"), says())
        every, one = await person.types_block("onward audit --tag")
        assert person.shown("tried").search(one)
        effects = [each for each in crash_bench.payments.effects() if each.order == order]
        (twice, _), (once, _) = keys = Counter(str(each.key) for each in effects).most_common()
        assert [times for _, times in keys] == [2, 1]
        assert [every.count(twice), every.count(once), one.count(twice)] == [1, 1, 1]
        verified, told = await person.types_block("--verify")
        assert "verified: " in verified
        assert f'{{"order":"{order}"' in told
        assert "paused agents" in await person.types("onward doctor")
        await person.types_block("onward resume")
        assert await outcomes(waits) == ["completed"]
        assert "paused agents" not in await person.types("onward doctor")
    assert person.reader.untyped() == set()


async def test_redis_is_lost_or_full(bench: Bench, on_call: Page) -> None:
    """Killed, empty, full, from a backup: runs wait and go on, and each effect happens once."""
    person, done = on_call("docs/runbooks/redis.md"), Refunds()
    redis: Any = bench.redis
    async with bench.worker(person.app(done.tool), search_attributes=True):
        run = await person.start("batch-1", refunds("A-17"), refunds("A-18", delay_s=2), says())
        await wait_until(asked(run, 2), 30, what="the second request")
        await person.redis.kill()
        await wait_until(run.failing_activity, 30, what="a Redis that is missed")
        doctor, status = await person.types_block("onward status", 3, 0)
        assert person.shown("away").search(doctor), doctor
        assert person.shown("refund").search(status), status
        await person.redis.start()
        await redis.flushall()
        assert await outcomes(run) == ["completed"]
        await _filled(person, done, redis)
    (restored,) = await person.types_block("onward restored")
    assert "will not trust the backup" in restored
    async with bench.worker(person.app(done.tool), search_attributes=True):
        waiting, verified = await person.types_block("onward list --waiting")
        assert run.name not in waiting
        assert "verified: " in verified
        await person.types("onward doctor")
    assert len(set(done.keys)) == len(done.keys) == 3
    assert person.reader.untyped() == set()


async def _filled(person: OnCall, done: Refunds, redis: Any) -> None:
    """Fill the Redis, and make room again."""
    run = await person.start("batch-2", refunds("A-19", delay_s=2), says())
    await wait_until(asked(run, 1), 30, what="the request")
    await redis.config_set("maxmemory", (await redis.info("memory"))["used_memory"] // 2)
    await wait_until(run.failing_activity, 30, what="a Redis that is full")
    assert "wrong  memory" in await person.types("onward doctor", 1)
    assert "too full for a new run" in await person.types("onward start x --agent support", 1)
    assert "the ledger's Redis" in await person.types("onward status batch-2")
    await person.types_block("onward doctor --orphans")
    assert len(done.keys) == 2
    await redis.config_set("maxmemory", 0)
    assert await outcomes(run) == ["completed"]


async def test_calls_in_doubt(crash_bench: CrashBench, on_call: Page) -> None:
    """A worker dies with three payments under way: what is looked up and said is what happens."""
    person, held = on_call("docs/runbooks/in-doubt.md"), f"held-{uuid.uuid4().hex[:8]}"
    worker, sent = worker_for(crash_bench, person), person.named("A-17")
    calls = [{"order": sent, "trouble": "delay_after_s=30"}, {"order": f"{held}-2"}]
    calls.append({"order": f"{held}-3"})
    async with worker(**{HOLD: held}) as first:
        runs = [
            await person.start(f"batch-{number}", uses(("pay_out", call)), says())
            for number, call in enumerate(calls, 1)
        ]
        await wait_until(lambda: crash_bench.effects(sent), 30, what="one that was sent")
        await wait_until(lambda: first.output().count(HOLDS) == 2, 30, what="two that were not")
        await first.kill()
    async with worker():
        await wait_until(partial(_doubts, person, 3), 30, what="three doubts")
        waiting, status, audit = await person.types_block("onward status")
        assert person.shown("pay_out").search(waiting), waiting
        assert "waiting (doubt)" in status
        assert "in doubt: its worker went away" in audit
        assert "is in doubt" in await person.types("onward result batch-1", 8)
        for command in person.reader.commands("onward resolve"):
            await _settled(person, command)
        assert "Done." in (await person.types_block("onward result"))[0]
        assert await outcomes(*runs) == ["completed"] * 3
        await person.types("onward doctor")
    assert [crash_bench.effects(call["order"]) for call in calls] == [1, 0, 1]
    assert person.reader.untyped() == set()


async def _doubts(person: OnCall, count: int) -> bool:
    listed = await person.types("onward list --waiting")
    return listed.count("its worker went away") == count


async def _settled(person: OnCall, command: str) -> None:
    """Say what became of a call, again while it is refused because it may still land."""

    async def taken() -> bool:
        said = await person.said(command)
        assert said.status == 0 or "may still land" in said.output, said
        return said.status == 0

    await wait_until(taken, 30, what=command)


async def test_the_api_is_down(bench: Bench, on_call: Page) -> None:
    """A closed port: what waits goes on by itself. A refused key: what ended goes on anew."""
    person, done, (port,) = on_call("docs/runbooks/api-down.md"), Refunds(), free_ports(1)
    url, bench.api.url = bench.api.url, f"http://127.0.0.1:{port}"
    faults = [Fault(status=529, retry_after=4)]
    overloaded = bench.script(refunds("A-17", faults=faults), says())
    async with bench.worker(person.app(done.tool), search_attributes=True):
        async with ScriptedAPI({person.named("batch-1"): overloaded}, port=port):
            waits = await person.start("batch-1", *overloaded.steps)
            told = await _said(person, "onward status batch-1", "529")
            assert person.shown("529").search(told), told
            doctor, _ = await person.types_block("onward doctor")
        assert "1 of 1 open run held up" in doctor
        await _said(person, "onward status batch-1", "cannot reach ANTHROPIC_BASE_URL")
        assert "240 minutes" in (await person.types_block("onward limit"))[0]
        well = bench.script(refunds("A-17"), says())
        async with ScriptedAPI({waits.name: well}, port=port):
            assert await outcomes(waits) == ["completed"]
    bench.api.url = url
    async with bench.worker(person.app(done.tool), search_attributes=True):
        await _refused(person)
        assert "none held up" in await person.types("onward doctor")
    assert len(set(done.keys)) == len(done.keys) == 3
    assert person.reader.untyped() == set()


async def _refused(person: OnCall) -> None:
    """Let a key be refused for a while, in the middle of a run and at another's beginning."""
    no = [Fault(status=401)]
    begun = await person.start("batch-2", refunds("A-17"), says(faults=no))
    never = await person.start("batch-3", refunds("A-18", faults=no))
    for run in (begun, never):
        assert "401" in (await run.failed()).detail
        person.bench.api.scripts[run.name] = person.bench.script(refunds("A-18"), says())
    failed, why = await person.types_block("--status failed", 0, 1)
    assert begun.name in failed
    assert "Check ANTHROPIC_API_KEY" in why
    (fork,) = await person.types_block("onward fork")
    person.puts(f"[script:{never.name}]", "Refund order A-18.")
    await person.types_block("onward start")
    assert await outcomes(person.run(fork.split()[0]), never) == ["completed"] * 2


async def test_a_bad_deploy(bench: Bench, on_call: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that cannot have written the histories: seen at once, over when the old one is back."""
    person, done = on_call("docs/runbooks/bad-deploy.md"), Refunds()
    app, begin = person.app(done.tool), scheduling.begin
    steps = refunds("A-17"), says(faults=_UNHEARD)

    async def begins_with_a_timer(state: Any) -> Any:
        await workflow.sleep(0.1)
        return await begin(state)

    async with bench.worker(app, search_attributes=True):
        runs = [await person.start(f"batch-{number}", *steps) for number in (1, 2, 3)]
        for run in runs:
            await wait_until(asked(run, 2), 30, what="the second request")
    with monkeypatch.context() as deployed:
        deployed.setattr(scheduling, "begin", begins_with_a_timer)
        plain = UnsandboxedWorkflowRunner()  # the sandbox would load the code anew
        async with bench.worker(app, search_attributes=True, unsandboxed_workflow_runner=plain):
            await _seen_failing(person, runs)
            bench.api.scripts[runs[1].name] = bench.script(steps[0], says())
            (fork, _) = await person.types_block("onward fork")
            assert await outcomes(person.run(fork.split()[0])) == ["completed"]
    async with bench.worker(app, search_attributes=True):
        hurried = await runs[2].reset_to_task(-1)
        assert await outcomes(hurried, *runs[:2]) == ["completed", "completed", "cancelled"]
        doctor, result = await person.types_block("onward result")
        assert "none held up" in doctor
        assert "Done." in result
    assert len(set(done.keys)) == len(done.keys) == 3
    assert person.reader.untyped() == set()


async def _seen_failing(person: OnCall, runs: list[Run]) -> None:
    async def all_are() -> bool:
        listed = await person.types("onward list --status failing --agent support")
        return all(run.name in listed for run in runs)

    await wait_until(all_are, 30, what="runs that Temporal says are failing")
    doctor, listed, status = await person.types_block("--status failing", 1, 0, 0)
    assert person.shown("progress").search(doctor), doctor
    assert runs[0].name in listed
    assert "state    failing" in status
    assert "workers of the release before" in status


async def test_everything_is_stopped(bench: Bench, on_call: Page) -> None:
    """Paused, nothing is fired; cancelled, nothing that waited ever is; resumed, it goes on."""
    person, done = on_call("docs/runbooks/stop-everything.md"), Refunds()
    async with bench.worker(person.app(done.tool), search_attributes=True):
        assert "No run of it begins an effect" in (await person.types_block("onward pause"))[0]
        runs = [await person.start(f"batch-{n}", refunds("A-17"), says()) for n in (1, 2)]
        for run in runs:
            await wait_until(run.failing_activity, 30, what="an effect that is held back")
        doctor, status = await person.types_block("onward doctor")
        assert "2 of 2 open runs held up" in doctor
        assert "paused agents" in doctor
        assert person.shown("Nothing was fired").search(status), status
        listed, stopped, _ = await person.types_block("--dry-run")
        assert all(run.name in listed for run in runs)
        assert "asked 2 runs to stop" in stopped
        assert await outcomes(*runs) == ["cancelled"] * 2
        assert "1 not run" in await person.types("onward audit batch-1")
        later = await person.start("batch-3", refunds("A-18"), says())
        await wait_until(later.failing_activity, 30, what="a later run that is held back")
        assert done.keys == []
        await person.types_block("onward resume")
        assert await outcomes(later) == ["completed"]
        assert "paused agents" not in await person.types("onward doctor")
    assert len(done.keys) == 1
    assert person.reader.untyped() == set()


async def test_a_run_is_stuck(bench: Bench, on_call: Page, tmp_path: Path) -> None:
    """No worker, no such agent, a person, a pause, a folder elsewhere: status says which it is."""
    person, done = on_call("docs/runbooks/stuck.md"), Refunds()

    @tool(effect="keyed", ask="always")
    async def ask() -> str:
        """Ask first."""
        return "asked"

    app = person.app(done.tool, ask)
    run = await person.start("batch-1", refunds("A-17", faults=_UNHEARD), says())
    status, doctor = await person.types_block("onward status", 0, 1)
    assert "no worker of task queue" in status
    assert "nothing polls the task queue" in doctor
    async with bench.worker(app, search_attributes=True):
        await wait_until(asked(run, 1), 30, what="the request")
    async with bench.worker(app_of(), search_attributes=True):
        await _said(person, "onward status batch-1", "this worker's app has no agent")
        assert "1 of 1 open run held up" in await person.types("onward doctor")
    async with bench.worker(app, search_attributes=True):
        asks = await person.start("batch-2", uses(("ask", {})), says())
        paused = await person.start("batch-3", refunds("A-18", delay_s=3), says())
        await person.types("onward pause batch-3 --reason 'looking into it'")
        far = await _elsewhere(person, tmp_path)
        await _said(person, "onward status batch-4", "is not on this host")
        await _said(person, "onward list --waiting", asks.name)
        await person.types_block("onward approve")
        await person.types_block("onward cancel", 0, 5)
        assert await outcomes(run, asks, paused) == ["completed"] * 3
        assert await outcomes(far) == ["cancelled"]
        assert "none held up" in await person.types("onward doctor")
    assert len(done.keys) == 2
    assert person.reader.untyped() == set()


async def _elsewhere(person: OnCall, folder: Path) -> Run:
    """Start the run that the page calls `batch-4`, on a folder that no worker has."""
    absent = prepare(folder).model_copy(update={"path": str(folder / "absent")})
    agent = person.named("support")
    run = await person.bench.start(refunds("A-19"), says(), agent=agent, workspace=absent)
    person.puts(run.name, "batch-4")
    return run


async def _said(person: OnCall, command: str, what: str) -> str:
    async def told() -> str:
        said = await person.types(command)
        return said if what in said else ""

    return await wait_until(told, 30, what=f"{command} to say {what!r}")
