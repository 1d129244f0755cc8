"""Watching a run: what happens is told as it happens, once, whatever dies meanwhile (E04)."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from crash_runs import CrashBench
from people import say, waiting
from temporalio.client import Client
from watchers import Watcher, watcher

from onward import ToolContext, tool
from onward.live.happenings import (
    Asked,
    CallEnded,
    Decided,
    Replied,
    Restarted,
    RunEnded,
    Stopping,
    Trouble,
    Waits,
    Watched,
    Wrote,
)
from onward.local_services import RedisServer, temporal_server
from onward.messages import CancelRequest
from onward.payload_store import data_converter
from onward.testing.messages_api import Step

pytestmark = [pytest.mark.field("E04"), pytest.mark.timeout(120)]

NO_REDIS = "redis://127.0.0.1:1/0"


@tool(effect="keyed")
async def act(n: int) -> str:
    """Act."""
    return f"acted {n}"


@tool(effect="keyed", ask="always")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def slowly(text: str = "One two three four five. " * 8, **fields: Any) -> Step:
    """Make a step whose reply takes a second or two."""
    return says(text, **{"chunk_delay_s": 0.1, **fields})


def thinking(step: Step) -> Step:
    """Let Claude think before it says what the step says."""
    thought = {"type": "thinking", "thinking": "Which one is it?", "signature": "s"}
    return step.model_copy(update={"content": [thought, *step.content]})


def wrote(seen: Watcher) -> bool:
    return bool(seen.of(Wrote))


def story(seen: Watcher) -> list[str]:
    """What lasts of what was told, a word each."""
    kinds = (Asked, Replied, CallEnded, RunEnded)
    names = (type(each).__name__ for each in seen.told if isinstance(each, kinds))
    return [*names]


async def stream_of(run: Run) -> Any:
    """The run's live stream in Redis, as XINFO tells it; None: there is none."""
    key = f"{run.bench.ledger(run).key}:live"
    redis: Any = run.bench.redis
    return await redis.xinfo_stream(key) if await redis.exists(key) else None


async def test_a_reply_is_told_as_it_is_written_and_once(bench: Bench, redis_url: str) -> None:
    """Pieces come before the reply is whole and together are it; calls and results follow."""
    first = thinking(uses(("act", {"n": 1}), chunk_delay_s=0.05))
    async with bench.worker(app_of(act)):
        run = await bench.start(first, slowly())
        async with watcher(run, redis_url) as seen:
            await run.ended()
            await seen.end()
    assert story(seen) == ["Asked", "Replied", "CallEnded", "Asked", "Replied", "RunEnded"]
    assert (seen.text("1", "thinking"), seen.text("1", "tool")) == ("Which one is it?", "act")
    assert seen.text("1", "arguments") == '{"n": 1}'
    assert seen.text("2") == "One two three four five. " * 8
    assert sum(isinstance(each, Wrote) and each.step == "2" for each in seen.told) > 2
    (result,) = seen.of(CallEnded)
    assert (result.call, result.tool, result.how, result.text) == ("1.1", "act", "done", "acted 1")
    assert seen.of(Replied)[-1].total == seen.of(RunEnded)[0].how.result.spend


async def test_short_replies_cost_redis_nothing(bench: Bench) -> None:
    """A reply that is whole at once is not published: no command more, and no key."""

    async def written() -> int:
        redis: Any = bench.redis
        found = await redis.info("commandstats")
        return int(found.get("cmdstat_xadd", {"calls": 0})["calls"])

    before = await written()
    run = await bench.run(app_of(act), uses(("act", {"n": 1})), says())
    assert (await written(), await stream_of(run)) == (before, None)


@pytest.mark.crash
async def test_a_killed_worker_leaves_a_mark_and_the_text_once(
    crash_bench: CrashBench, redis_url: str
) -> None:
    """SIGKILL in mid-answer: watchers are told what to drop, and the final text stands once.

    One who came after the kill, and one who came before it, are told the same in the end.
    """
    text = "Said by the one that lives. " * 8
    async with crash_bench.worker() as worker:
        run = await crash_bench.bench.start(slowly(text))
        async with watcher(run, redis_url) as early, crash_bench.worker():
            await early.until(wrote, "the first piece")
            await worker.kill()
            async with watcher(run, redis_url) as late:
                await late.until(wrote, "the reply from its start")
                await early.end()
                await late.end()
    for seen in (early, late):
        assert [each.step for each in seen.of(Restarted)] == ["1"]
        assert (story(seen), seen.text("1")) == (["Asked", "Replied", "RunEnded"], text)
    assert len(run.requests) == 2


async def test_two_watch_at_once_and_are_told_the_same(bench: Bench, redis_url: str) -> None:
    """A late one is told the current step from its start, and how many were before it."""
    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {"n": 1})), slowly())
        async with watcher(run, redis_url, all_steps=True) as early:
            await early.until(lambda seen: seen.text("2"), "the second step")
            async with watcher(run, redis_url) as late:
                await early.end()
                await late.end()
    assert (early.of(Watched)[0].earlier_steps, late.of(Watched)[0].earlier_steps) == (0, 1)
    assert late.text("2") == early.text("2")
    assert story(late) == ["Asked", "Replied", "RunEnded"]
    assert story(early) == ["Asked", "Replied", "CallEnded", *story(late)]


@pytest.mark.crash
async def test_losing_redis_in_mid_answer_fails_nothing(
    bench: Bench, own_redis: RedisServer
) -> None:
    """Claude is asked once, the reply is told when it is whole, and why is said."""
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(act)):
            run = await bench.start(slowly(), says("The end."))
            async with watcher(run, own_redis.url) as seen:
                await seen.until(wrote, "the first piece")
                await own_redis.kill()
                await seen.until(lambda seen: seen.of(Replied), "the whole reply")
                await own_redis.start()
                await run.ended()
                await seen.end()
    assert seen.text("1") == "One two three four five. " * 8
    assert len(run.requests) == 1
    assert any("when it is whole" in each.text for each in seen.of(Trouble))


@pytest.mark.crash
async def test_losing_temporal_costs_only_time(
    bench: Bench, redis_url: str, tmp_path: Path
) -> None:
    """It is killed and comes back: that is said, and all that happened is told once."""
    async with temporal_server(None, ui=False) as server:
        converter = data_converter(tmp_path)
        client = await Client.connect(server.address, data_converter=converter)
        own = replace(bench, temporal=client)
        async with own.worker(app_of(act)):
            run = await own.start(uses(("act", {"n": 1})), slowly())
            async with watcher(run, redis_url) as seen:
                await seen.until(lambda seen: seen.text("2"), "the second step")
                await server.kill()
                await seen.until(lambda seen: seen.of(Trouble), "that Temporal is away")
                await server.start()
                await seen.end()
    assert story(seen) == ["Asked", "Replied", "CallEnded", "Asked", "Replied", "RunEnded"]
    assert seen.text("2") == "One two three four five. " * 8
    assert "Temporal did not answer" in seen.of(Trouble)[0].text


async def test_without_redis_steps_are_told_when_they_are_whole(bench: Bench) -> None:
    """An ended run is told at once: its last step and its end; `--all` tells the others too."""
    run = await bench.run(app_of(act), uses(("act", {"n": 1})), says("The end."))
    async with watcher(run, NO_REDIS) as seen, watcher(run, NO_REDIS, all_steps=True) as every:
        await seen.end()
        await every.end()
    assert (story(seen), seen.text("2")) == (["Asked", "Replied", "RunEnded"], "The end.")
    assert story(every) == ["Asked", "Replied", "CallEnded", *story(seen)]
    assert every.of(Asked)[0].said[0][1].startswith("Go.")


async def test_a_run_that_continued_as_new_is_one_story(bench: Bench, redis_url: str) -> None:
    """Watchers follow it through; who comes late can be told the steps of earlier histories."""
    steps = [uses(("act", {"n": n})) for n in (1, 2, 3, 4)]
    async with replace(bench, history_events=15).worker(app_of(act)):
        run = await bench.start(*steps, slowly())
        async with watcher(run, redis_url, all_steps=True) as early:
            await early.until(lambda seen: seen.text("5"), "the last step")
            every = watcher(run, redis_url, all_steps=True)
            async with watcher(run, redis_url) as late, every as late_but_told:
                for seen in (early, late, late_but_told):
                    await seen.end()
    assert len(await run.chain()) > 1
    assert story(late_but_told) == story(early)
    assert [each.text for each in early.of(CallEnded)] == [f"acted {n}" for n in (1, 2, 3, 4)]
    assert [each.step for each in late.of(Asked)] == ["5"]
    earlier = [seen.of(Watched)[0].earlier_steps for seen in (late, late_but_told)]
    assert earlier == [4, 0]


async def test_what_waits_for_a_person_is_told_and_watching_goes_on(
    bench: Bench, redis_url: str
) -> None:
    """The call, after the reply that asks for it; who decided, what came of it, and the end."""
    async with bench.worker(app_of(pay)):
        run = await bench.start(uses(("pay", {"cents": 5}), ("pay", {"cents": 6})), says())
        async with watcher(run, redis_url) as seen:
            await waiting(run, 2)
            await seen.until(lambda seen: len(seen.of(Waits)) == 2, "both calls that wait")
            await say(run, "approve", "1.1")
            await say(run, "deny", "1.2", why="too much")
            await run.ended()
            await seen.end()
    waits = [each.waiting.call for each in seen.of(Waits)]
    assert waits == ["1.1", "1.2"]
    assert seen.told.index(seen.of(Replied)[0]) < seen.told.index(seen.of(Waits)[0])
    decided = [(each.call, each.what, each.by) for each in seen.of(Decided)]
    assert decided == [
        ("1.1", "approved", "operator@desk"),
        ("1.2", "denied (too much)", "operator@desk"),
    ]
    ended = [(each.call, each.how, each.text) for each in seen.of(CallEnded)]
    assert ended == [
        ("1.1", "done", "paid 5"),
        ("1.2", "not_run", "A person denied this call. too much"),
    ]


async def test_a_run_without_a_worker_is_watched_until_one_comes(
    bench: Bench, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nobody answers is said; a cancel too, and the end that it brings."""
    monkeypatch.setattr("onward.reports.QUERY_TIMEOUT", timedelta(seconds=0.5))
    run = await bench.start(slowly())
    async with watcher(run, redis_url) as seen:
        await seen.until(lambda seen: seen.of(Trouble), "that no worker answers")
        async with bench.worker(app_of(act)):
            await seen.until(wrote, "the first piece")
            await run.handle.signal("cancel", CancelRequest())
            how = await seen.end()
    assert (how.result.outcome, len(seen.of(Stopping))) == ("cancelled", 1)
    assert seen.of(Trouble)[0].text.startswith("no worker of task queue")


async def test_a_reset_run_goes_on_to_be_watched(bench: Bench, redis_url: str) -> None:
    """What was told of the branch left behind is not the end; the new branch is told, and ends."""
    gate = asyncio.Event()

    @tool(effect="keyed")
    async def wait(ctx: ToolContext) -> str:
        """Wait for the test."""
        del ctx
        await gate.wait()
        return "waited"

    async with replace(bench, takeover_s=1.0).worker(app_of(act, wait)):
        run = await bench.start(uses(("act", {"n": 1})), uses(("wait", {})), says("The end."))
        async with watcher(run, redis_url) as seen:
            await seen.until(lambda seen: len(seen.of(Replied)) == 2, "the second step")
            again = await run.reset_to_first_task()
            gate.set()
            await again.ended()
            await seen.end()
    assert [each.run.run_id for each in seen.of(Watched)] == [
        run.handle.first_execution_run_id,
        again.handle.run_id,
    ]
    assert (story(seen)[-1], seen.text("3")) == ("RunEnded", "The end.")
