"""`fork` goes on from a copy of another run's conversation, and no effect happens twice."""

import json
import uuid
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, says, uses
from forked import asked, fork, found
from people import waiting
from redis.asyncio import Redis
from temporalio.converter import DataConverter

from onward import ToolContext, segments, tool
from onward.local_services import TemporalServer
from onward.messages import ClaudeReply, RunResult
from onward.testing import wait_until

pytestmark = pytest.mark.replay


class Effects:
    """Tools that count what they did, with the keys they were given."""

    def __init__(self) -> None:
        self.done, self.keys = list[str](), list[str]()

        @tool(effect="keyed")
        async def act(what: str, ctx: ToolContext) -> str:
            """Act."""
            self.done.append(what)
            self.keys.append(ctx.idempotency_key)
            return f"did {what}"

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            return "nothing to see"

        @tool(effect="keyed", ask="always")
        async def pay(to: str) -> str:
            """Pay, when a person says so."""
            self.done.append(f"paid {to}")
            return f"paid {to}"

        @tool(ask="always", in_doubt="model")
        async def once(to: str) -> str:
            """Pay out, when a person says so, without a key."""
            self.done.append(f"once {to}")
            return f"once {to}"

        @tool(effect="keyed", key_from=lambda call: call["order"])
        async def order(order: str) -> str:
            """Order once, however often it is asked for."""
            self.done.append(f"ordered {order}")
            return f"ordered {order}"

        @tool(effect="read")
        async def long() -> str:
            """Give a long text."""
            return "0123456789" * 40_000

        self.app = app_of(act, look, pay, once, order, long)


@pytest.fixture
def effects() -> Effects:
    return Effects()


@pytest.fixture
def cli(  # noqa: PLR0917  (fixtures)
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    temporal: TemporalServer,
    redis_url: str,
    bench: Bench,
    tmp_path: Any,
) -> Cli:
    """Run commands on the test's servers and payload folder."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
    monkeypatch.setenv("ONWARD_REDIS_URL", redis_url)
    monkeypatch.setenv("ONWARD_TASK_QUEUE", bench.queue)
    monkeypatch.setenv("ONWARD_PAYLOAD_DIR", str(tmp_path / "payloads"))
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


def messages(run: Run, number: int = -1) -> list[dict[str, Any]]:
    """Messages of a request; of a fork they are among its parent's, whose script it goes on."""
    found: list[dict[str, Any]] = json.loads(run.requests[number].body)["messages"]
    return found


def told_last(run: Run) -> str:
    """What Claude was told last, as text."""
    return json.dumps(messages(run)[-1]["content"], ensure_ascii=False)


async def three_steps(bench: Bench) -> Run:
    """A run that ended: it acted, looked and acted again."""
    acts = [uses(("act", {"what": what})) for what in ("first", "second")]
    run = await bench.start(acts[0], uses(("look", {})), acts[1], says("That is all."))
    await run.ended()
    return run


# ---- what is copied


async def test_a_finished_run_goes_on(bench: Bench, cli: Cli, effects: Effects) -> None:
    """Its whole conversation is sent on as it was, then the message; nothing is done again."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        before = messages(parent)
        forked = await fork(cli, parent, "--message", "And now?", then=[says("Nothing more.")])
        result = await forked.ended()
    sent = messages(parent)
    assert sent[: len(before)] == before
    assert sent[len(before)]["content"] == [{"type": "text", "text": "That is all."}]
    assert sent[-1] == {"role": "user", "content": [{"type": "text", "text": "And now?"}]}
    assert (result.outcome, result.text, result.steps) == ("completed", "Nothing more.", 5)
    assert (effects.done, result.spend.requests) == (["first", "second"], 1)
    last, first = json.loads(parent.requests[-1].body), json.loads(parent.requests[0].body)
    assert {**last, "messages": 0} == {**first, "messages": 0}
    await forked.replay()


async def test_a_fork_lives_without_redis_and_its_parent(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """Its records are its own: they are rebuilt from its own history, with the parent gone."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        then = [uses(("pay", {"to": "a"})), says("Paid.")]
        forked = await fork(cli, parent, "--message", "Pay.", then=then)
        await waiting(forked)
        redis: Redis = bench.redis
        for each in (parent, forked):
            key = await bench.temporal.get_workflow_handle(each.name).describe()
            await redis.delete(f"onward:{{{each.name}:{key.run_id}}}")
        assert (await cli("approve", forked.name, "5.1")).code == 0
        result = await forked.ended()
    assert (result.outcome, effects.done[-1]) == ("completed", "paid a")
    assert "paid a" in told_last(parent)
    await forked.replay()


async def test_limits_count_from_the_fork(bench: Bench, cli: Cli, effects: Effects) -> None:
    """The parent's limits hold anew, or what is asked for; a fork of a fork counts anew again."""
    async with bench.worker(effects.app):
        parent = await bench.start(
            *(uses(("look", {})) for _ in range(3)), says("Later."), max_steps=2
        )
        assert (await parent.ended()).outcome == "limit_steps"
        new, ran = await asked(cli, parent, "--max-steps", "1")
        assert "2 steps copied; money and time count from here" in ran.err
        assert "at most 3 steps" in ran.err
        forked = found(bench, new)
        result = await forked.ended()
        assert (result.outcome, result.steps) == ("limit_steps", 3)
        again = await fork(cli, forked)
        result = await again.ended()
    assert (result.outcome, result.steps, result.text) == ("completed", 4, "Later.")
    assert result.spend.requests == 1


async def test_an_earlier_step_can_be_taken_another_way(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """What was done since is listed and must be accepted; Claude is told; keys are new."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        _, ran = await asked(cli, parent, "--step", "1", "--message", "Differently.")
        assert (ran.code, "3.1 act (what=second): done" in ran.err) == (2, True)
        assert "With --yes" in ran.err
        typed = ("--step", "1", "--message", "Differently.", "--yes")
        then = [uses(("act", {"what": "third"})), says("Done.")]
        forked = await fork(cli, parent, *typed, then=then)
        assert (await forked.ended()).outcome == "completed"
    told = messages(parent, -2)
    assert told[:-1] == messages(parent, 1)[:-1]
    assert told[-1]["content"][0] == messages(parent, 1)[-1]["content"][0]
    assert "- act (what=second): done. Its result: " in told[-1]["content"][1]["text"]
    assert told[-1]["content"][2]["text"] == "Differently."
    assert effects.done == ["first", "second", "third"]
    assert len(set(effects.keys)) == 3
    await forked.replay()


async def test_what_a_business_key_names_is_recognised(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """A fork that asks for the same order gets what became of it, though it was not copied."""
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("look", {})), uses(("order", {"order": "A"})), says())
        await parent.ended()
        then = [uses(("order", {"order": "A"})), says()]
        forked = await fork(cli, parent, "--step", "1", "--yes", then=then)
        await forked.ended()
    assert effects.done == ["ordered A"]
    assert "ordered A" in told_last(parent)


# ---- open calls


async def parted(bench: Bench, tool_name: str) -> tuple[Run, ClaudeReply]:
    """A run that was terminated while a call of its step 1 waited for a person."""
    run = await bench.start(uses(("look", {}), (tool_name, {"to": "a"})), says("Going on."))
    await waiting(run)

    async def looked() -> bool:
        done = [e.activity_task_completed_event_attributes for e in (await run.history()).events]
        return len([each for each in done if each.scheduled_event_id]) == 3

    await wait_until(looked, 20, what="the end of the call beside it")
    await run.handle.terminate()
    record = (await bench.ledger(run).records("1")).records["1"]
    return run, ClaudeReply.model_validate_json(record.result)


async def claimed(
    bench: Bench, run: Run, reply: ClaudeReply, lease_ms: int, *, index: int = 1
) -> str:
    """Claim the waiting call as an old attempt would; returns the verdict."""
    call = reply.calls[index]
    claim = await bench.ledger(run).claim(
        call.call,
        fp=call.fingerprint,
        cls=call.effect,
        token=uuid.uuid4().hex,
        lease_ms=lease_ms,
        witness=reply.witness,
        lineage=False,
    )
    return claim.verdict


@pytest.mark.parametrize("tool_name", ["pay", "once"])
async def test_a_call_that_never_ran_is_told_so_and_can_never_run(
    bench: Bench, cli: Cli, effects: Effects, tool_name: str
) -> None:
    """Proved by a claim and not by a look: an old attempt that wakes up later may not act."""
    async with bench.worker(effects.app):
        parent, reply = await parted(bench, tool_name)
        forked = await fork(cli, parent)
        result = await forked.ended()
        assert await claimed(bench, parent, reply, 1000) == "failed"
    assert "Not run: the run that asked for it had ended" in told_last(parent)
    assert "nothing to see" in told_last(parent)
    assert (result.outcome, result.in_doubt, effects.done) == ("completed", (), [])
    await forked.replay()


@pytest.mark.parametrize("tool_name", ["pay", "once"])
async def test_a_call_that_an_attempt_held_is_in_doubt(
    bench: Bench, cli: Cli, effects: Effects, tool_name: str
) -> None:
    """Refused while the attempt may still act, until when is said; after that, outcome unknown."""
    async with bench.worker(effects.app):
        parent, reply = await parted(bench, tool_name)
        assert await claimed(bench, parent, reply, 1500) == "claimed"
        _, ran = await asked(cli, parent)
        assert (ran.code, "call 1.2" in ran.err, "old attempt until" in ran.err) == (2, True, True)
        forks: list[Run] = []

        async def taken() -> bool:
            new, ran = await asked(cli, parent)
            forks.append(found(bench, new))
            return ran.code == 0

        await wait_until(taken, 20, what="the end of the lease")
        result = await forks[-1].ended()
    assert "OUTCOME UNKNOWN: this call may or may not have happened" in told_last(parent)
    assert (result.outcome, result.in_doubt, effects.done) == ("completed", ("1.2",), [])


@pytest.mark.parametrize("held", [False, True], ids=["never claimed", "claimed"])
async def test_a_call_after_the_step_is_settled_too(
    bench: Bench, cli: Cli, effects: Effects, *, held: bool
) -> None:
    """One that never ran is not listed, and can never run; one that may have needs a --yes."""
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("look", {})), uses(("pay", {"to": "a"})), says())
        await waiting(parent)
        await parent.handle.terminate()
        record = (await bench.ledger(parent).records("2")).records["2"]
        reply = ClaudeReply.model_validate_json(record.result)
        if held:
            assert await claimed(bench, parent, reply, 1, index=0) == "claimed"
            _, ran = await asked(cli, parent, "--step", "1")
            assert (ran.code, "2.1 pay (to=a): OUTCOME UNKNOWN" in ran.err) == (2, True)
        bench.api.scripts[parent.name] = bench.script(uses(("look", {})), says("Done."))
        forked = await fork(cli, parent, "--step", "1", *(["--yes"] if held else []))
        assert (await forked.ended()).text == "Done."
        verdict = await claimed(bench, parent, reply, 1000, index=0)
    assert verdict == ("doubt" if held else "failed")
    assert ("- pay (to=a): OUTCOME UNKNOWN" in told_last(parent)) == held
    assert effects.done == []


async def test_a_worker_waits_for_a_lease_that_the_command_did_not_see(
    bench: Bench, cli: Cli, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The activity looks for itself: it says until when it waits, and then goes on."""
    async with bench.worker(effects.app):
        parent, reply = await parted(bench, "pay")
        monkeypatch.setenv("ONWARD_REDIS_URL", "redis://127.0.0.1:1/0")
        assert await claimed(bench, parent, reply, 4000) == "claimed"
        new, ran = await asked(cli, parent)
        assert (ran.code, "Only history can tell what was done" in ran.err) == (0, True)
        assert "held by an old attempt until" in await found(bench, new).failing_activity()
        assert (await found(bench, new).ended()).in_doubt == ("1.2",)


@pytest.mark.parametrize("tool_name", ["pay", "once"])
async def test_a_ledger_that_was_lost_proves_nothing(
    bench: Bench, cli: Cli, effects: Effects, tool_name: str
) -> None:
    """Without the parent's records nobody knows whether the call was claimed: outcome unknown."""
    async with bench.worker(effects.app):
        parent, _ = await parted(bench, tool_name)
        redis: Redis = bench.redis
        await redis.delete(bench.ledger(parent).key)
        result = await (await fork(cli, parent)).ended()
        lives_ms: int = await redis.pttl(bench.ledger(parent).key)
    assert "OUTCOME UNKNOWN" in told_last(parent)
    assert (result.in_doubt, effects.done, lives_ms > 0) == (("1.2",), [], True)


async def test_a_truth_that_only_the_ledger_has_is_told(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """An attempt recorded its result, and the run ended before it reached history."""
    async with bench.worker(effects.app):
        parent, reply = await parted(bench, "pay")
        call, done = reply.calls[1], {"status": "done", "content": '"paid late"'}
        ledger = bench.ledger(parent)
        await ledger.complete(
            call.call,
            fp=call.fingerprint,
            cls=call.effect,
            token=uuid.uuid4().hex,
            result=json.dumps(done),
        )
        await (await fork(cli, parent)).ended()
    assert "paid late" in told_last(parent)


async def test_a_cancelled_run_goes_on(bench: Bench, cli: Cli, effects: Effects) -> None:
    """What it did not come to is told as not run; the fork ends as it pleases."""
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("act", {"what": "a"}), ("pay", {"to": "b"})), says())
        await waiting(parent)
        await parent.handle.signal("cancel")
        assert (await parent.ended()).outcome == "cancelled"
        result = await (await fork(cli, parent)).ended()
    assert result.outcome == "completed"
    assert "did a" in told_last(parent)
    assert "Not run" in told_last(parent)
    assert effects.done == ["a"]


async def test_an_attempt_that_dies_in_the_middle_changes_nothing(
    bench: Bench, cli: Cli, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor finds what was settled and written, and makes the same copy of it."""
    keep, died = segments.keep, list[bytes]()

    async def dies_once(converter: DataConverter, value: bytes) -> str:
        died.append(value)
        if len(died) == 1:
            raise RuntimeError("the worker died")
        return await keep(converter, value)

    monkeypatch.setattr(segments, "keep", dies_once)
    async with bench.worker(effects.app):
        parent, _ = await parted(bench, "once")
        result = await (await fork(cli, parent)).ended()
    assert (result.outcome, result.in_doubt, effects.done) == ("completed", (), [])
    assert "Not run" in told_last(parent)
    assert (len(died), died[0]) == (2, died[1])


# ---- where forks come from


async def test_a_run_that_goes_on_can_be_forked_at_a_finished_step(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """Its half-finished step cannot be copied: that is refused, and a finished step is named."""
    async with bench.worker(effects.app):
        steps = [uses(("act", {"what": "a"})), uses(("pay", {"to": "b"})), says()]
        parent = await bench.start(*steps)
        await waiting(parent)
        for typed in ((), ("--step", "2")):
            _, ran = await asked(cli, parent, *typed)
            assert (ran.code, "its last finished step is 1" in ran.err) == (2, True)
        forked = await fork(cli, parent, "--step", "1", then=[says("Enough.")])
        assert (await forked.ended()).text == "Enough."
        assert len(await waiting(parent)) == 1
        await parent.handle.signal("cancel")
        await parent.ended()
    assert effects.done == ["a"]


async def test_a_reset_gives_the_same_fork(bench: Bench, cli: Cli, effects: Effects) -> None:
    """Temporal's reset of a fork to its first task makes the copy again, and repeats no effect."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        then = [uses(("act", {"what": "third"})), says("Done.")]
        forked = await fork(cli, parent, "--message", "Go on.", then=then)
        await forked.ended()
        first = (await forked.handle.describe()).run_id
        forked.handle = bench.temporal.get_workflow_handle(
            forked.name, run_id=first, first_execution_run_id=first, result_type=RunResult
        )
        reset = await forked.reset_to_first_task()
        result = await reset.ended()
    assert (result.outcome, result.text) == ("completed", "Done.")
    assert effects.done == ["first", "second", "third"]


async def test_a_run_that_continued_as_new_is_copied_whole(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """Its segments are read too; a long result that was copied can still be read on in."""
    bench.history_events = 20
    async with bench.worker(effects.app):
        steps = [uses(("long", {})), *(uses(("act", {"what": str(n)})) for n in range(4))]
        parent = await bench.start(*steps, says("That is all."))
        await parent.ended()
        assert await chain_of(parent) > 1
        then = [uses(("read_result", {"call": "1.1", "offset": 100_000})), says("Read.")]
        forked = await fork(cli, parent, "--message", "Read on.", then=then)
        assert (await forked.ended()).text == "Read."
        shown = await cli("transcript", forked.name)
    assert "bytes 100000 to" in told_last(parent)
    assert shown.out.count("\n── step") == len(steps) + 3
    assert effects.done == list("0123")


async def chain_of(run: Run) -> int:
    """How many workflow runs made the run."""
    newest = await run.bench.temporal.get_workflow_handle(run.name).describe()
    begun, number = newest.run_id, 1
    while True:
        handle = run.bench.temporal.get_workflow_handle(run.name, run_id=begun)
        first = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
        if not first.continued_execution_run_id:
            return number
        begun, number = first.continued_execution_run_id, number + 1


async def test_a_reply_that_was_cut_off_is_answered(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """Its calls never ran, and each tool use needs a result before the conversation can go on."""
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("act", {"what": "a"}), stop_reason="max_tokens"))
        assert (await parent.ended()).outcome == "max_tokens"
        forked = await fork(cli, parent, "--message", "Shorter.", then=[says("Done.")])
        result = await forked.ended()
    assert (result.outcome, effects.done) == ("completed", [])
    assert "the reply was cut off" in told_last(parent)


# ---- what the audit says


async def test_the_audit_shows_the_parent_and_agrees(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """The fork's names where it comes from; the parent's agrees with what the fork settled."""
    async with bench.worker(effects.app):
        parent, _ = await parted(bench, "pay")
        bench.api.scripts[parent.name] = bench.script(
            uses(("look", {}), ("pay", {"to": "a"})), uses(("act", {"what": "b"})), says()
        )
        forked = await fork(cli, parent)
        await forked.ended()
        audited = await cli("audit", forked.name, "--verify", "--json")
        assert (audited.code, audited.json["parent"]["workflow_id"]) == (0, parent.name)
        assert [row["call"] for row in audited.json["effects"]] == ["2.1"]
        of_parent = await cli("audit", parent.name, "--verify")
        assert of_parent.code == 0, of_parent.out


# ---- bad input


async def test_what_cannot_be_forked_is_said(bench: Bench, cli: Cli, effects: Effects) -> None:
    """Past the end, nothing to say, an unknown run: what was found, and what to do."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
    for step in ("5", "0", "-1"):
        _, past = await asked(cli, parent, "--step", step)
        assert (past.code, "its last one is 4" in past.err) == (2, True)
    _, silent = await asked(cli, parent)
    assert (silent.code, 'Add --message "…"' in silent.err) == (2, True)
    _, empty = await asked(cli, parent, "--message", " ")
    assert empty.code == 2
    assert (await cli("fork", "no-such-run")).code == 4


async def test_an_agent_that_is_no_longer_there_is_said_at_once(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """The new run fails with the names of the agents that there are; the parent is untouched."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
    other = app_of()
    other.agents["another"] = other.agents.pop("tester")
    async with bench.worker(other):
        new, ran = await asked(cli, parent, "--message", "On.")
        assert (ran.code, "'tester'" in ran.err) == (1, True)
        assert (await found(bench, new).failed()).outcome == "failed"


async def test_a_fork_asked_for_twice_is_one_run(bench: Bench, cli: Cli, effects: Effects) -> None:
    """The same --id attaches to it; for another fork that id is refused."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        forked = await fork(cli, parent, "--message", "On.", then=[says("Done.")])
        await forked.ended()
        again = await cli("fork", parent.name, "--id", forked.name, "--message", "On.", "--wait")
        assert (again.code, again.out.strip()) == (0, "Done.")
        typed = ("--step", "3", "--message", "On.")
        other = await cli("fork", parent.name, "--id", forked.name, *typed)
    assert (other.code, "its origin: 'fork of" in other.err) == (2, True)
