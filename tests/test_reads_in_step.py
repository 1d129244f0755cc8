"""Reads run in the activity that got the reply, and nothing that they do may cost the reply."""

import asyncio
import uuid
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from crash_runs import CrashBench
from people import say, waiting

from activities import reads
from activities.failures import again
from activities.lifecycle import LifecycleActivities
from activities.tools import CallAttempt
from onward import Rejected, tool
from onward.local_services import RedisServer
from onward.messages import CallResult, Opening
from onward.own_history import read_history
from onward.testing import wait_until


class Looks:
    """Tools that note when they are called."""

    def __init__(self) -> None:
        self.seen: list[str] = []

        @tool(effect="read")
        async def look(what: str, wait_s: float = 0.0) -> str:
            """Look."""
            self.seen.append(what)
            await asyncio.sleep(wait_s)
            if what == "nothing":
                raise Rejected("there is nothing")
            return f"saw {what}"

        @tool(effect="read", ask=lambda call: call["what"] == "secret")
        async def peek(what: str) -> str:
            """Look, if allowed."""
            self.seen.append(what)
            return f"saw {what}"

        @tool(effect="keyed")
        async def act() -> str:
            """Act."""
            self.seen.append("act")
            return "acted"

        self.app = app_of(look, peek, act)


def look(what: str, wait_s: float = 0.0) -> tuple[str, dict[str, object]]:
    """Make a call of `look`."""
    return "look", {"what": what, "wait_s": wait_s}


async def test_reads_are_part_of_their_step(bench: Bench) -> None:
    """No activity of their own; results in Claude's order, whichever came first; errors too."""
    looks = Looks()
    run = await bench.run(looks.app, uses(look("a", 0.2), look("nothing"), look("c")), says())
    assert await run.activities() == ["begin", "call_claude", "call_claude", "end"]
    assert sorted(looks.seen) == ["a", "c", "nothing"]
    body = run.requests[-1].body
    assert body.index("saw a") < body.index("there is nothing") < body.index("saw c")


async def test_a_refused_call_is_written_beside_reads(bench: Bench) -> None:
    """What may not run at all keeps no read from running in the step."""
    looks = Looks()
    run = await bench.run(looks.app, uses(("absent", {}), look("b")), says())
    assert await run.activities() == ["begin", "call_claude", "call_claude", "end"]
    body = run.requests[-1].body
    assert body.index("There is no tool") < body.index("saw b")


async def test_beside_an_effect_reads_keep_their_place(bench: Bench) -> None:
    """Claude's order holds: what is read after an effect is read after it."""
    looks = Looks()
    run = await bench.run(looks.app, uses(look("a"), ("act", {}), look("b")), says())
    assert looks.seen == ["a", "act", "b"]
    wanted = ["begin", "call_claude", "look", "act", "look", "call_claude", "end"]
    assert await run.activities() == wanted


async def test_a_read_that_a_person_decides_on_waits_for_them(bench: Bench) -> None:
    """A call that needs an approval never runs in the step, nor do those beside it."""
    looks = Looks()
    calls = ("peek", {"what": "secret"}), look("b")
    async with bench.worker(looks.app):
        run = await bench.start(uses(*calls), says())
        await waiting(run)
        await wait_until(lambda: looks.seen == ["b"], 30, what="the read beside it")
        await say(run, "approve", "1.1")
        await run.ended()
    assert looks.seen == ["b", "secret"]


async def test_a_read_that_fails_to_run_here_gets_its_own_activity(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Temporal would try again is left to it, call by call; the reply is kept."""

    class Busy(CallAttempt):
        async def result(self) -> CallResult:
            if self._given.call == "1.2":
                raise again("busy", "another attempt is at work")
            return await super().result()

    monkeypatch.setattr(reads, "CallAttempt", Busy)
    looks = Looks()
    run = await bench.run(looks.app, uses(look("a"), look("b")), says())
    assert await run.activities() == ["begin", "call_claude", "look", "call_claude", "end"]
    assert (sorted(looks.seen), len(run.requests)) == (["a", "b"], 2)


async def test_a_cancel_during_a_read_keeps_the_reply(bench: Bench) -> None:
    """The run ends at once, and what the reply cost is counted."""
    looks = Looks()
    async with bench.worker(looks.app):
        run = await bench.start(uses(look("a"), look("b", 60.0)), says())
        await wait_until(lambda: len(looks.seen) == 2, 30, what="both reads")
        await run.handle.signal("cancel")
        result = await asyncio.wait_for(run.ended(), 20)
    assert (result.outcome, result.steps, result.spend.requests) == ("cancelled", 1, 1)
    assert result.spend.lost_requests == 0


async def test_a_run_begun_before_reads_as_it_did(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of before 0.3 may have its workflow, and would schedule what was read already."""
    opening = LifecycleActivities._opening  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    async def of_before(self: LifecycleActivities, *given: Any) -> Opening:
        found = await opening(self, *given)
        return found.model_copy(update={"reads_in_step": False})

    monkeypatch.setattr(LifecycleActivities, "_opening", of_before)
    run = await bench.run(Looks().app, uses(look("a")), says())
    assert await run.activities() == ["begin", "call_claude", "look", "call_claude", "end"]


async def test_a_reply_of_many_reads_runs_few_at_once(bench: Bench) -> None:
    """A worker's bound on activities does not see them, and its memory and threads are finite."""
    running, most = 0, 0

    @tool(effect="read")
    async def look_into(page: int) -> str:
        """Look."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return f"page {page}"

    pages = uses(*[("look_into", {"page": n}) for n in range(40)])
    run = await bench.run(app_of(look_into), pages, says())
    assert await run.activities() == ["begin", "call_claude", "call_claude", "end"]
    assert most == 16
    assert all(f'"page {n}"' in run.requests[-1].body for n in range(40))


@pytest.mark.crash
async def test_a_reply_that_is_recorded_nowhere_waits_for_no_read(
    bench: Bench, own_redis: RedisServer
) -> None:
    """Redis goes while Claude answers: the reply enters history first, and is not paid twice."""
    looks = Looks()
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(looks.app):
            run = await bench.start(uses(look("a"), delay_s=1.0), says())
            await wait_until(lambda: len(run.requests) > 0, 30, what="the first request")
            await own_redis.kill()
            await wait_until(lambda: _scheduled(run, "look"), 30, what="the read's own activity")
            await own_redis.start()
            result = await run.ended()
    assert (result.outcome, looks.seen, len(run.requests)) == ("completed", ["a"], 2)


async def _scheduled(run: Run, name: str) -> bool:
    return name in await run.activities()


async def test_time_in_reads_is_time_of_the_run(bench: Bench) -> None:
    """The limit on time counts what the reads took: three of a second let no fourth step begin."""
    run = await bench.run(Looks().app, *[uses(look("a", 1.0))] * 5, says(), max_wall_time=3.0)
    assert run.result is not None
    assert run.result.outcome == "limit_time"
    assert run.result.steps <= 3


async def test_history_tells_what_was_read_in_a_step(bench: Bench) -> None:
    """After a loss of Redis the results are rebuilt like those of any other call."""
    run = await bench.run(Looks().app, uses(look("a"), look("nothing")), says())
    told = await read_history(bench.temporal, run.name, run.handle.first_execution_run_id or "")
    ledger = await bench.ledger(run).records("1.1", "1.2")
    for call, record in ledger.records.items():
        assert (told.records[call].st, told.records[call].result) == (record.st, record.result)
    assert told.records["1.1"].st == "done"
    assert told.records["1.2"].st == "failed"


@pytest.mark.crash
@pytest.mark.parametrize("point", ["f5", "f10"])
async def test_a_death_during_a_read_costs_no_second_request(
    crash_bench: CrashBench, point: str
) -> None:
    """The next attempt finds the reply recorded, and reads what is not recorded yet."""
    order = f"read-{uuid.uuid4().hex[:8]}"
    async with crash_bench.worker(FP=f"{point}:1:kill") as worker:
        run = await crash_bench.bench.start(uses(("look_up", {"order": order})), says())
        await worker.killed()
    async with crash_bench.worker():
        result = await run.ended()
    assert (result.outcome, len(run.requests)) == ("completed", 2)
    assert order in run.requests[-1].body
