"""What is said to a run is heard once: asked to say it again, cut off, or too much at a time."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from agent_runs import Bench, app_of, says, uses
from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import onward.client
from onward import tool
from onward.client import ConnectError, RunHandle, UsageError
from onward.messages import Message, RunRequest, RunResult, RunStatus, Sent
from onward.names import WORKFLOW


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@workflow.defn(name=WORKFLOW, sandboxed=False)
class Hesitant:
    """A run that does with each message what the message says."""

    def __init__(self) -> None:
        self._asked = list[tuple[str, str]]()
        self._ended = False

    @workflow.run
    async def run(self, _request: RunRequest) -> RunResult:
        await workflow.wait_condition(lambda: self._ended)
        return RunResult(outcome="completed", text=f"{len({each for each, _ in self._asked})}")

    @workflow.query(name="status")
    def status(self) -> RunStatus:
        return RunStatus(agent="tester", state="running", step="1", doing="")

    @workflow.update(name="send", unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def send(self, said: Message) -> Sent:
        update = workflow.current_update_info()
        self._asked.append((said.id, update.id if update else ""))
        if said.text.startswith("end"):
            self._ended = True
        if said.text in {"wait", "end before the answer"}:
            await workflow.wait_condition(lambda: False)
        if said.text == "again" and len(self._asked) < 3:
            raise ApplicationError("It moves. Say it again then", type="usage", non_retryable=True)
        return Sent(id=said.id, unseen=len(self._asked))


@asynccontextmanager
async def hesitant(bench: Bench) -> AsyncGenerator[RunHandle]:
    """Start such a run, with its worker."""
    async with Worker(
        bench.temporal,
        task_queue=bench.queue,
        workflows=[Hesitant],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        name, request = f"run-{uuid.uuid4().hex[:12]}", RunRequest(prompt="Go.", agent="tester")
        handle = await bench.temporal.start_workflow(
            WORKFLOW, request, id=name, task_queue=bench.queue
        )
        yield (await onward.client.connect()).attach(name)
        if (await handle.describe()).close_time is None:
            await handle.terminate()


async def test_a_run_that_asks_to_hear_it_again_hears_it_again(bench: Bench) -> None:
    """Nobody types it again, and the message keeps its id: it counts once."""
    async with hesitant(bench) as run:
        assert await run.send("again", id="m-1") == Sent(id="m-1", unseen=3)
        await run.send("end", id="m-2")
        assert (await run.result()).text == "2"


async def test_a_run_that_never_answers_is_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted and then not answered, as by a worker that died: said in time, with what to do."""
    monkeypatch.setattr("onward.client.saying.WITHIN_S", 1.0)
    async with hesitant(bench) as run:
        with pytest.raises(ConnectError, match=r"not answered within 1 s.*may still take"):
            await run.send("wait")


async def test_whoever_stops_waiting_is_let_go(bench: Bench) -> None:
    """A cancel, Ctrl-C for instance, ends what waits for an answer at once, as a cancel."""
    async with hesitant(bench) as run:
        saying = asyncio.create_task(run.send("wait"))
        await asyncio.wait({saying}, timeout=0.5)
        saying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(saying, 5)


async def test_more_is_sent_at_once_than_a_server_takes_at_a_time(bench: Bench) -> None:
    """Each of forty messages is taken, once, though the run continues as new beneath them."""
    async with replace(bench, history_events=20).worker(app_of(look), max_cached_workflows=10):
        begun = await bench.start(uses(("look", {}), delay_s=1), says(), says())
        run = (await onward.client.connect()).attach(begun.name)
        await run.pause()
        sent = [run.send(f"message {n:02}.", id=f"m-{n}") for n in range(40)]
        assert {each.id for each in await asyncio.gather(*sent)} == {f"m-{n}" for n in range(40)}
        await run.resume()
        result = await run.result()
    assert (result.outcome, result.unseen) == ("completed", ())
    assert len(await begun.chain()) > 1
    last = begun.requests[-1].body
    assert [last.count(f"message {n:02}.") for n in range(40)] == [1] * 40


async def test_a_run_that_ends_meanwhile_says_so(bench: Bench) -> None:
    """What comes too late is refused, with how the run ended and the way on."""
    async with hesitant(bench) as run:
        await run.send("end")
        await run.result()
        with pytest.raises(UsageError, match=r"has ended \(completed\).*fork"):
            await run.send("Too late.")


async def test_a_run_that_ends_before_it_answers_may_have_heard_it(bench: Bench) -> None:
    """Nobody is told that nothing was changed where nobody knows."""
    async with hesitant(bench) as run:
        with pytest.raises(UsageError, match=r"has ended \(completed\).*may have heard you before"):
            await run.send("end before the answer")
