"""`pause --agent`, the brake for an incident: no run of the agent begins a new effect."""

import asyncio
import json
import time
import uuid
from collections import Counter
from typing import Any

import httpx2
import pytest
from agent_double import Cli
from agent_runs import MODEL, Bench, Run, says, uses
from crash_runs import CrashBench
from people import say_in_time, waiting

from onward import Agent, App, ToolContext, tool
from onward.console import Output
from onward.doctor.command import doctor
from onward.errors import UsageError
from onward.local_services import RedisServer
from onward.messages import EffectClass
from onward.pausing.command import pause_agent, resume_agent
from onward.pausing.switch import Switch
from onward.reports import report
from onward.runs import describe
from onward.testing import Effect, wait_until
from onward.watching import troubles

pytestmark = pytest.mark.timeout(120)

WITHIN_S = 5.0
"""How soon a pause stops what has not begun."""


class Tools:
    """An effect and a read, and which calls of them ran."""

    def __init__(self, effect: EffectClass = "keyed") -> None:
        self.ran = list[str]()

        @tool(effect=effect)
        async def act(ctx: ToolContext) -> str:
            """Act."""
            self.ran.append(ctx.call)
            return "acted"

        @tool(effect="read")
        async def look(ctx: ToolContext) -> str:
            """Look."""
            self.ran.append(ctx.call)
            return "seen"

        self.all = (act, look)


def app_with(agent: str, *tools: Any) -> App:
    return App(*(Agent(name, model=MODEL, tools=tools) for name in (agent, "another")))


@pytest.fixture
def agent() -> str:
    """Name an agent that no other test pauses."""
    return f"support-{uuid.uuid4().hex[:8]}"


class Brake:
    """The two commands, typed for one agent; what they print as JSON."""

    def __init__(self, agent: str, captured: pytest.CaptureFixture[str]) -> None:
        self._agent, self._captured = agent, captured

    async def pause(self, reason: str = "refunds are doubled") -> Any:
        out = Output(as_json=True)
        assert await pause_agent(self._agent, reason, out, by="ops@desk") == 0
        return self._printed()

    async def resume(self) -> Any:
        assert await resume_agent(self._agent, Output(as_json=True)) == 0
        return self._printed()

    def _printed(self) -> Any:
        return json.loads(self._captured.readouterr().out)


@pytest.fixture
def brake(bench: Bench, agent: str, capsys: pytest.CaptureFixture[str]) -> Brake:
    del bench  # it says where the servers are
    return Brake(agent, capsys)


async def held_up(*runs: Run) -> None:
    """Wait until an effect of each run was refused because of the pause."""

    async def all_are() -> bool:
        said = [await run.failing_activity() for run in runs]
        return all("is paused" in each for each in said)

    await wait_until(all_are, 40, what="all runs being held up by the pause")


# ---- what waits, and what does not


@pytest.mark.parametrize("effect", ["keyed", "at_most_once"])
async def test_an_effect_waits_unclaimed(
    bench: Bench, brake: Brake, agent: str, effect: EffectClass
) -> None:
    """Nothing is claimed or fired, and the run shows why; lifted, it is one request as ever."""
    tools = Tools(effect)
    await brake.pause()
    async with bench.worker(app_with(agent, *tools.all)):
        run = await bench.start(uses(("act", {})), says(), agent=agent)
        await held_up(run)
        (said,) = troubles(await report(bench.temporal, await describe(bench.temporal, run.name)))
        assert f"agent {agent!r} is paused since 20" in said
        assert " by ops@desk: refunds are doubled. Nothing was fired. " in said
        assert f"`onward resume --agent {agent}`" in said
        assert "1.1" not in (await bench.ledger(run).snapshot()).records
        assert (await brake.resume())["runs"] == [run.name]
        result = await run.ended()
        record = (await bench.ledger(run).records("1.1")).records["1.1"]
    assert (result.outcome, result.in_doubt, tools.ran) == ("completed", (), ["1.1"])
    assert record.requests == 1


async def test_only_effects_of_that_agent_wait(bench: Bench, brake: Brake, agent: str) -> None:
    """Its reads and Claude's replies go on, and so does everything of other agents."""
    tools = Tools()
    await brake.pause()
    async with bench.worker(app_with(agent, *tools.all)):
        steps = (uses(("look", {})), uses(("act", {})), says())
        run = await bench.start(*steps, agent=agent)
        await held_up(run)
        assert tools.ran == ["1.1"]
        assert (await (await bench.start(*steps, agent="another")).ended()).outcome == "completed"
        await brake.resume()
        await run.ended()
    assert tools.ran == ["1.1", "1.1", "2.1", "2.1"]


async def test_an_effect_under_way_goes_to_its_end(bench: Bench, brake: Brake, agent: str) -> None:
    """A pause interrupts nothing, and so leaves no doubt; the next call of the reply waits."""
    began, goes_on = asyncio.Event(), asyncio.Event()
    ran = list[str]()
    loop = asyncio.get_running_loop()

    @tool
    async def act(ctx: ToolContext) -> str:
        """Act, for as long as the test says."""
        loop.call_soon_threadsafe(began.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(goes_on.wait(), loop))
        ran.append(ctx.call)
        return "acted"

    async with bench.worker(app_with(agent, act)):
        run = await bench.start(uses(("act", {}), ("act", {})), says(), agent=agent)
        await asyncio.wait_for(began.wait(), 20)
        await brake.pause()
        goes_on.set()
        await held_up(run)
        records = (await bench.ledger(run).snapshot()).records
        assert (ran, records["1.1"].st, "1.2" in records) == (["1.1"], "done", False)
        await brake.resume()
        assert (await run.ended()).in_doubt == ()


async def test_a_cancel_ends_a_paused_run_at_once(bench: Bench, brake: Brake, agent: str) -> None:
    """Nobody has to lift the pause first; the call never began, so it is in no doubt."""
    tools = Tools()
    await brake.pause()
    async with bench.worker(app_with(agent, *tools.all)):
        run = await bench.start(uses(("act", {})), says(), agent=agent)
        await held_up(run)
        asked = time.monotonic()
        await run.handle.signal("cancel")
        result = await run.ended()
        took_s = time.monotonic() - asked
    await brake.resume()
    assert (result.outcome, result.in_doubt, tools.ran) == ("cancelled", (), [])
    assert took_s < WITHIN_S


async def test_a_retry_that_a_person_asked_for_waits_too(
    bench: Bench, brake: Brake, agent: str
) -> None:
    """`resolve … retry` sends again: that is a new effect."""
    bench.takeover_s, sent = 1.0, list[str]()

    @tool(moves_money=True, timeout_s=0.5)
    async def pay_out(ctx: ToolContext) -> str:
        """Pay out."""
        sent.append(ctx.call)
        if len(sent) == 1:
            raise httpx2.ReadTimeout("no answer")
        return "paid"

    async with bench.worker(app_with(agent, pay_out)):
        run = await bench.start(uses(("pay_out", {})), says(), agent=agent)
        await waiting(run)
        await brake.pause()
        await say_in_time(run, "1.1", "retry")
        await held_up(run)
        assert sent == ["1.1"]
        await brake.resume()
        result = await run.ended()
    assert (result.in_doubt, sent) == ((), ["1.1", "1.1"])


# ---- an incident


@pytest.mark.crash
@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.long)])
async def test_a_pause_stops_runs_at_full_speed_and_outlives_what_is_killed(
    crash_bench: CrashBench,
    own_redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    count: int,
) -> None:
    """Within 5 s no run has a new effect, also after SIGKILL of worker and Redis."""
    monkeypatch.setenv("ONWARD_REDIS_URL", own_redis.url)
    brake, books = Brake("tester", capsys), Books(crash_bench)
    env = {"ONWARD_REDIS_URL": own_redis.url}
    async with crash_bench.worker(**env) as worker:
        runs = [await books.run_of_refunds() for _ in range(count)]
        await wait_until(books.all_have_effects, 60, what="effects of all runs")
        assert {run.name for run in runs} <= set((await brake.pause())["runs"])
        paused_at = time.time()
        await worker.kill()
        await own_redis.kill()
        await own_redis.start()
        async with crash_bench.worker(**env):
            await held_up(*runs)
            last_at = max(effect.t for effect in books.effects())
            await brake.resume()
            await wait_until(lambda: books.effects()[-1].t > last_at, 30, what="effects again")
            for run in runs:
                await run.handle.signal("cancel")
            outcomes = {(await run.ended()).outcome for run in runs}
    assert last_at - paused_at < WITHIN_S
    assert outcomes == {"cancelled"}
    assert set(Counter(effect.order for effect in books.effects()).values()) == {1}


class Books:
    """Runs that refund an order with every step, and the payments service's books of them."""

    def __init__(self, bench: CrashBench) -> None:
        self._bench, self._names = bench, set[str]()

    async def run_of_refunds(self) -> Run:
        name = uuid.uuid4().hex
        self._names.add(name)
        steps = [uses(("refund", {"order": f"{name} {n}"})) for n in range(90)]
        return await self._bench.bench.start(*steps, says())

    def effects(self) -> list[Effect]:
        found = self._bench.payments.effects()
        return [effect for effect in found if effect.order.split()[0] in self._names]

    def all_have_effects(self) -> bool:
        return {effect.order.split()[0] for effect in self.effects()} == self._names


# ---- what people see


async def test_doctor_names_the_agents_that_are_paused(
    bench: Bench, brake: Brake, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By whom, since when and why, until it is lifted; a worker's absence is not the question."""

    async def line() -> Any:
        await doctor(Output(as_json=True))
        checks = json.loads(capsys.readouterr().out)["checks"]
        return checks.get("paused agents", {})

    before = int(time.time() * 1000)
    await brake.pause()
    said = await line()
    assert f"resume --agent {agent}`" in said["todo"]
    told = said["agents"][agent]
    assert before <= told.pop("since_ms") <= time.time() * 1000
    assert told == {"by": "ops@desk", "reason": "refunds are doubled"}
    assert (await brake.resume())["was_paused"]
    assert agent not in (await line()).get("agents", {})
    assert not (await brake.resume())["was_paused"]
    assert await Switch(bench.redis, bench.temporal.namespace).find(agent) is None


@pytest.mark.usefixtures("brake")
async def test_a_pause_in_another_redis_is_not_taken_for_one(
    bench: Bench,
    agent: str,
    own_redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A shell with the wrong ONWARD_REDIS_URL stops nothing: the command says so at once."""
    tools = Tools()
    async with bench.worker(app_with(agent, *tools.all)):
        run = await bench.start(uses(("look", {}), delay_s=60), says(), agent=agent)
        await wait_until(lambda: run.requests, 20, what="the run having begun")
        await pause_agent(agent, "", Output())
        assert "seems to hold no records" not in capsys.readouterr().err
        await resume_agent(agent, Output())
        monkeypatch.setenv("ONWARD_REDIS_URL", own_redis.url)
        await pause_agent(agent, "", Output())
        assert "seems to hold no records of the 1 open run" in capsys.readouterr().err
        await run.handle.signal("cancel")
        await run.ended()


async def test_the_commands_as_people_type_them(bench: Bench, cli: Cli, agent: str) -> None:
    """Both say what they did, to how many runs, and what lifts it."""
    switch = Switch(bench.redis, bench.temporal.namespace)
    typed = await cli("pause", "--agent", agent, "--reason", "doubled", "--by", "ops@desk")
    assert (typed.code, typed.out) == (0, "")
    assert f"agent '{agent}' is paused since 20" in typed.err
    assert f"no run of an agent '{agent}' is open in namespace 'default'" in typed.err
    assert f"resume --agent {agent}` lifts it" in typed.err
    again = await cli("pause", "--agent", agent, "--by", "shift-2")
    assert "by ops@desk: doubled. " in again.err, "why it is paused must not get lost"
    paused = await switch.find(agent)
    assert paused is not None
    assert (paused.by, paused.reason) == ("ops@desk", "doubled")
    lifted = await cli("resume", "--agent", agent, "--json")
    assert lifted.json == {"agent": agent, "paused": None, "runs": [], "was_paused": True}
    assert await switch.find(agent) is None
    assert "was not paused" in (await cli("resume", "--agent", agent)).err


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize("words", [(), ("run-1", "--agent", "support")])
async def test_a_run_or_an_agent_is_named(cli: Cli, command: str, words: tuple[str, ...]) -> None:
    """Neither, or both, is wrong use, and says what is right."""
    typed = await cli(command, *words)
    assert (typed.code, typed.out) == (2, "")
    assert f"{command} RUN`, or `" in typed.err


@pytest.mark.usefixtures("bench")
async def test_what_is_no_agent_s_name_is_refused() -> None:
    """A name that no agent can have is a mistake; one that no run has is said to be that."""
    with pytest.raises(UsageError, match="1 to 64 letters"):
        await pause_agent("support team", "", Output())
    with pytest.raises(UsageError, match="no valid text"):
        await pause_agent("support", "half of \ud83d", Output())
