"""A run continues as new before its history grows long, and nobody can tell by what it does."""

import asyncio
import random
import statistics
import time
from typing import Any

import httpx2
import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from people import say, waiting
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer

from onward import segments, tool
from onward.local_services import RedisServer
from onward.messages import RunRequest
from onward.testing import wait_until
from onward.testing.messages_api import Step
from workflows.agent import AgentWorkflow

pytestmark = pytest.mark.replay
EVERY_STEP = 12
"""Events after which a run has done one step, and continues as new."""


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return f"found {what}"


class Sent:
    """A tool that keeps count of what it did."""

    def __init__(self, **options: Any) -> None:
        self.notes = list[str]()
        declared: dict[str, Any] = {"effect": "keyed"} | options

        @tool(**declared)
        async def send(note: str) -> str:
            """Send a note."""
            self.notes.append(note)
            return f"sent {note}"

        self.tool = send


def carried_in(history: WorkflowHistory) -> RunRequest:
    """Return what a workflow run was started with."""
    started = history.events[0].workflow_execution_started_event_attributes
    return RunRequest.model_validate_json(started.input.payloads[0].data)


def steps(count: int) -> list[Any]:
    return [uses(("look", {"what": f"w{n}"}), ("send", {"note": f"n{n}"})) for n in range(count)]


async def test_a_long_run_is_many_short_histories(bench: Bench) -> None:
    """Conversation, effects and spend are those of one run; no history is longer than allowed."""
    bench.history_events, sent = 60, Sent()
    async with bench.worker(app_of(look, sent.tool)):
        run = await bench.start(*steps(20), says("All sent."))
        result = await run.ended()
    assert (result.outcome, result.text, result.steps) == ("completed", "All sent.", 21)
    assert sent.notes == [f"n{n}" for n in range(20)]
    assert result.spend.requests == len(run.requests) == 21
    chain = await run.chain()
    assert len(chain) > 4
    assert max(len(history.events) for history in chain) < 60 + 30
    await run.replay()


async def test_the_ledger_is_rebuilt_from_segments(bench: Bench, own_redis: RedisServer) -> None:
    """Redis is wiped again and again in a run that continues as new: the same conversation."""
    bench.history_events, sent = 40, Sent()
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look, sent.tool)):
            run = await bench.start(*steps(12), says())
            for count in range(1, 12, 2):
                await wait_until(_done_steps(run, count), 30, what=f"{count} steps")
                await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
            result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    assert [*dict.fromkeys(sent.notes)] == [f"n{n}" for n in range(12)]
    assert len(await run.chain()) > 2
    body = run.requests[-1].body
    assert all(f"found w{n}" in body and f"sent n{n}" in body for n in range(12))


async def test_what_is_carried_holds_no_conversation(bench: Bench) -> None:
    """Segments are named by reference, made once, and handed on as they are."""
    bench.history_events = EVERY_STEP
    async with bench.worker(app_of(look)):
        run = await bench.start(*[uses(("look", {"what": "x" * 9000})) for _ in range(4)], says())
        await run.ended()
    inputs = [carried_in(history) for history in await run.chain()]
    before: tuple[str, ...] = ()
    for request in inputs[1:]:
        assert request.carried is not None
        assert (request.prompt, request.carried.opening.frozen) == ("", "")
        segments = request.carried.segments
        assert segments[:-1] == before
        before = segments
    assert "xxxx" not in inputs[-1].model_dump_json()


async def test_what_it_costs_to_carry_over_does_not_grow(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment is made with at most the one before it, however many there are."""
    fetched, fetch = list[str](), segments.fetch

    async def counted(converter: DataConverter, reference: str) -> bytes:
        fetched.append(reference)
        return await fetch(converter, reference)

    monkeypatch.setattr(segments, "fetch", counted)
    bench.history_events, sent = EVERY_STEP, Sent()
    async with bench.worker(app_of(look, sent.tool)):
        run = await bench.start(*steps(8), says())
        await run.ended()
    assert len(fetched) < len(await run.chain()) < 10


async def test_the_run_looks_the_same_to_people(bench: Bench) -> None:
    """Memo, status and spend are answered right after the change, and tell of the whole run."""
    bench.history_events, sent = EVERY_STEP, Sent(ask="always")
    async with bench.worker(app_of(look, sent.tool)):
        run = await bench.start(
            uses(("look", {"what": "a"})), uses(("send", {"note": "n"})), says("Bye.")
        )
        (call,) = await waiting(run)
        assert (call.call, call.summary) == ("2.1", "note=n")
        assert '{"note":"n"}' in call.input.replace(" ", "")
        spent = await run.spend()
        status = await run.status()
        described = await run.handle.describe()
        assert (spent.requests, status.step, status.spend) == (2, "2", spent)
        assert carried_in(await run.history()).carried is not None
        assert described.raw_description.workflow_execution_info.task_queue == bench.queue
        timeout = described.raw_description.execution_config.default_workflow_task_timeout
        assert timeout.seconds == 3
        await say(run, "approve", "2.1", view=call.view)
        result = await run.ended()
    assert (result.outcome, result.spend.requests, sent.notes) == ("completed", 3, ["n"])


async def test_a_half_finished_step_waits_on(bench: Bench) -> None:
    """Results, decisions and doubts of a step are carried over while its calls wait for people."""
    bench.history_events, fails = EVERY_STEP, [True]
    sent = Sent(ask="always")

    @tool(moves_money=True, timeout_s=0.5)
    async def pay(to: str) -> str:
        """Pay out."""
        if fails.pop():
            raise httpx2.ReadTimeout("no answer")
        return f"paid {to}"

    async with bench.worker(app_of(look, pay, sent.tool)):
        run = await bench.start(
            uses(
                ("look", {"what": "a"}),
                ("pay", {"to": "first"}),
                ("send", {"note": "n"}),
                ("send", {"note": "m"}),
            ),
            says(),
        )
        await waiting(run, 3)
        await say(run, "deny", "1.4", why="one is enough")
        await wait_until(lambda: _continued(run), 30, what="a continued run")
        await say(run, "resolve", "1.2", outcome="done", note="seen it")
        await say(run, "approve", "1.3")
        result = await run.ended()
    assert (result.outcome, result.in_doubt, sent.notes) == ("completed", (), ["n"])
    body = run.requests[-1].body
    said = ["found a", "this call was done. seen it", "sent n", "denied this call. one is enough"]
    places = [body.index(words) for words in said]
    assert places == sorted(places)
    await run.replay()


async def _continued(run: Run) -> bool:
    return carried_in(await run.history()).carried is not None


async def test_no_word_is_lost_or_heard_twice(bench: Bench) -> None:
    """Decisions that arrive around continue-as-new are each taken once (field problem C16)."""
    bench.history_events, sent = EVERY_STEP, Sent(ask="always")
    notes = [f"n{n}" for n in range(12)]
    async with bench.worker(app_of(look, sent.tool)):
        run = await bench.start(uses(*[("send", {"note": note}) for note in notes]), says())
        calls = [call.call for call in await waiting(run, len(notes))]
        chance = random.Random(16)  # noqa: S311
        chance.shuffle(calls)
        for start in range(0, len(calls), 3):
            await asyncio.gather(*(say(run, "approve", call) for call in calls[start : start + 3]))
        result = await run.ended()
    assert (result.outcome, sent.notes) == ("completed", notes)
    assert len(await run.chain()) > 1
    await run.replay()


async def test_a_cancel_at_the_change_cancels(bench: Bench) -> None:
    """Signalled at any moment of a run that continues as new all the time, it ends it cleanly."""
    bench.history_events, sent = EVERY_STEP, Sent()
    async with bench.worker(app_of(look, sent.tool)):
        runs = [await bench.start(*steps(30), says()) for _ in range(4)]
        for number, run in enumerate(runs):
            await wait_until(_done_steps(run, number + 1), 30, what="some steps")
            await run.handle.signal("cancel")
        results = [await run.ended() for run in runs]
    assert [result.outcome for result in results] == ["cancelled"] * 4
    assert all(result.steps < 30 for result in results)
    assert len(sent.notes) == sum(
        note.count("sent n") for note in [await _told(run) for run in runs]
    )


def _done_steps(run: Run, count: int) -> Any:
    async def done() -> bool:
        return len(run.requests) >= count

    return done


async def _told(run: Run) -> str:
    chain = await run.chain()
    return "".join(
        event.activity_task_completed_event_attributes.result.payloads[0].data.decode()
        for history in chain
        for event in history.events
        if event.activity_task_completed_event_attributes.result.payloads
    )


async def test_a_run_begun_before_never_continues(bench: Bench) -> None:
    """Without the number of events in its opening its history replays as it was recorded."""
    bench.history_events = 0
    async with bench.worker(app_of(look)):
        run = await bench.start(*[uses(("look", {"what": "a"})) for _ in range(5)], says())
        await run.ended()
    assert len(await run.chain()) == 1


@pytest.mark.parametrize("wiped", [False, True])
async def test_a_reset_in_a_continued_run_repeats_nothing(bench: Bench, *, wiped: bool) -> None:
    """What segments hold is neither asked nor done again; what a wipe took is in doubt."""
    bench.history_events, sent = 40, Sent(effect="at_most_once")
    async with bench.worker(app_of(look, sent.tool)):
        run = await bench.start(*steps(10), says("All sent."))
        await run.ended()
        asked = len(run.requests)
        if wiped:
            assert await bench.redis.delete(bench.ledger(run).key)
        again = await run.reset_to_task(0)
        result = await again.ended()
    assert (result.outcome, result.text) == ("completed", "All sent.")
    assert sent.notes == [f"n{n}" for n in range(10)]
    assert bool(result.in_doubt) == wiped
    assert wiped or len(run.requests) == asked
    await again.replay()


async def test_what_is_carried_over_may_be_longer_than_a_request(bench: Bench) -> None:
    """A run's input is judged once, at its start: Claude's last words end no run that goes on."""
    bench.history_events = EVERY_STEP
    words = {"type": "text", "text": '"\n' * 500_000}  # 2 MB as JSON
    call = {"type": "tool_use", "name": "look", "input": {"what": "a"}}
    async with bench.worker(app_of(look)):
        run = await bench.start(Step(content=[words, call]), says(), max_cost_usd=100)
        result = await run.ended()
    assert (result.outcome, len(await run.chain())) == ("completed", 2)


@pytest.mark.field("C07")
async def test_a_cold_replay_takes_less_than_a_second(bench: Bench) -> None:
    """A new worker replays the longest history that a run may have before it does anything."""
    async with bench.worker(app_of(look), max_cached_workflows=10):
        run = await bench.start(
            *[uses(("look", {"what": "x" * 1000})) for _ in range(170)],
            says(),
            max_steps=200,
            max_cost_usd=100,
        )
        await run.ended()
    longest = max(await run.chain(), key=lambda history: len(history.events))
    assert 900 < len(longest.events) < 1100
    replayer = Replayer(workflows=[AgentWorkflow], data_converter=bench.temporal.data_converter)
    took: list[float] = []
    for _ in range(3):
        began = time.process_time()
        await replayer.replay_workflow(longest)
        took.append(time.process_time() - began)
    assert statistics.median(took) < 1.0, took


@pytest.mark.field("C15")
async def test_calls_beside_each_other_replay_in_one_order(bench: Bench) -> None:
    """Whatever order they end in, over two waves, every activation replays alike."""
    chance, sent = random.Random(15), Sent()  # noqa: S311

    @tool(effect="read")
    async def slow(name: str) -> str:
        """Take some time."""
        await asyncio.sleep(chance.random() / 5)
        return name

    # Beside an effect, reads are activities of their own.
    wave = uses(*[("slow", {"name": f"s{n}"}) for n in range(5)], ("send", {"note": "n"}))
    async with bench.worker(app_of(slow, sent.tool)):
        runs = [await bench.start(wave, wave, says()) for _ in range(5)]
        results = [await run.ended() for run in runs]
    assert [result.outcome for result in results] == ["completed"] * 5
    for run in runs:
        await run.replay()
