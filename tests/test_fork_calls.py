"""`fork` gives every call of the other run one end, of which Claude is told the truth."""

import json
import uuid

import forked as forks
import pytest
from agent_double import Cli
from agent_runs import Bench, Run, says, uses
from forked import Effects, asked, fork, found, told_last
from people import say, waiting
from redis.asyncio import Redis
from temporalio.client import Client
from temporalio.converter import DataConverter

from onward import segments
from onward.chain import Chain, chain_before
from onward.forking import never_started
from onward.forking.looking import look
from onward.history import RunKey
from onward.ledger import Ledger
from onward.messages import ClaudeReply, RunRef
from onward.testing import wait_until

pytestmark = pytest.mark.replay
effects = forks.effects


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


async def completed(bench: Bench, run: Run, reply: ClaudeReply, content: str) -> None:
    """Record a result of the waiting call that history does not hear of any more."""
    call, done = reply.calls[1], {"status": "done", "content": json.dumps(content)}
    await bench.ledger(run).complete(
        call.call,
        fp=call.fingerprint,
        cls=call.effect,
        token=uuid.uuid4().hex,
        result=json.dumps(done),
    )


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


async def test_a_command_sees_the_ledger_that_workers_see(bench: Bench) -> None:
    """The witness of the same dataset: else it would list what never ran, or miss what may have."""
    run = RunRef(workflow_id="seen", first_run_id="a", run_id="a", original_run_id="a")
    witness = await Ledger(bench.redis, run, strict=True).begin(None, reset_lineage=False)
    assert (await look(bench.redis, "seen", "a")).witness == witness
    assert (await look(bench.redis, "seen", "b")).witness is None


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


@pytest.mark.parametrize("tool_name", ["never", "never_once"])
async def test_a_ledger_that_was_lost_proves_nothing(
    bench: Bench, cli: Cli, effects: Effects, tool_name: str
) -> None:
    """Without the parent's records nobody knows whether the call was sent: outcome unknown."""
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("look", {}), (tool_name, {"to": "a"})), says())

        async def tried() -> bool:
            return bool(await parent.failing_activity())

        await wait_until(tried, 20, what="an attempt at the call")
        await parent.handle.terminate()
        await lose(bench, parent)
        result = await (await fork(cli, parent)).ended()
        redis: Redis = bench.redis
        lives_ms: int = await redis.pttl(bench.ledger(parent).key)
    assert "OUTCOME UNKNOWN" in told_last(parent)
    assert (result.in_doubt, effects.done, lives_ms > 0) == (("1.2",), [], True)


async def lose(bench: Bench, run: Run) -> None:
    """Lose the run's records, as a flush of Redis does."""
    redis: Redis = bench.redis
    await redis.delete(bench.ledger(run).key)


@pytest.mark.parametrize("tool_name", ["pay", "once"])
async def test_history_proves_that_a_call_was_never_started(
    bench: Bench, cli: Cli, effects: Effects, tool_name: str
) -> None:
    """Though Redis lost all: nothing is in doubt, and no doubt is written that an audit finds."""
    async with bench.worker(effects.app):
        parent = await bench.start(
            uses(("look", {})), uses((tool_name, {"to": "a"})), says("Well.")
        )
        await waiting(parent)
        await parent.handle.signal("cancel")
        await parent.ended()
        await lose(bench, parent)
        before = await cli("audit", parent.name, "--verify", "--json")
        result = await (await fork(cli, parent)).ended()
        told = told_last(parent)
        bench.api.scripts[parent.name] = bench.script(uses(("look", {})), says("Done."))
        assert (await (await fork(cli, parent, "--step", "1")).ended()).text == "Done."
        after = await cli("audit", parent.name, "--verify", "--json")
    assert ("Not run: the run that asked for it" in told, "UNKNOWN" in told) == (True, False)
    assert (result.in_doubt, effects.done) == ((), [])
    assert [row["outcome"] for row in after.json["effects"]] == ["not run"]
    assert after.json["differences"] == before.json["differences"]


@pytest.mark.parametrize("hidden", ["nothing", "by retention", "by a reset"])
async def test_only_a_history_that_hides_nothing_proves_it(
    bench: Bench, cli: Cli, effects: Effects, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    """All workflow runs of the chain are read; what one of them hides may have run the call."""
    bench.history_events = 12
    async with bench.worker(effects.app):
        run = await bench.start(uses(("look", {})), uses(("pay", {"to": "a"})), says())
        await waiting(run)
        if hidden == "by a reset":
            await waiting(await run.reset_to_task(0))
        parent = found(bench, run.name)
        assert len(await parent.chain()) > 1
        await parent.handle.signal("cancel")
        await parent.ended()
        await lose(bench, run)
        if hidden == "by retention":
            monkeypatch.setattr(never_started, "chain_before", forgotten)
        result = await (await fork(cli, parent)).ended()
    assert result.in_doubt == (() if hidden == "nothing" else ("2.1",))


async def forgotten(client: Client, newest: RunKey) -> Chain:
    """Answer as where Temporal no longer keeps the run before the newest."""
    before = await chain_before(client, newest)
    return Chain(forgotten=before.earlier[-1].run_id)


async def test_a_truth_that_only_the_ledger_has_is_told(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """An attempt recorded its result, and the run ended before it reached history."""
    async with bench.worker(effects.app):
        parent, reply = await parted(bench, "pay")
        await completed(bench, parent, reply, "paid late")
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


async def test_a_fork_of_a_fork_keeps_what_is_in_doubt(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """With the reason, though its ledger never saw the call; and the outcome says so each time."""
    async with bench.worker(effects.app):
        parent, reply = await parted(bench, "once")
        assert await claimed(bench, parent, reply, 1) == "claimed"
        forked = await fork(cli, parent)
        assert (await forked.ended()).in_doubt == ("1.2",)
        told = told_last(parent)
        again = await fork(cli, forked, "--step", "1")
        assert ((await again.ended()).in_doubt, told_last(parent)) == (("1.2",), told)
        steps = uses(("look", {}), ("once", {"to": "a"})), says("Going on."), says("Still.")
        bench.api.scripts[parent.name] = bench.script(*steps)
        last = await (await fork(cli, again, "--message", "On.")).ended()
    assert "its worker went away" in told
    assert (last.text, last.in_doubt, effects.done) == ("Still.", ("1.2",), [])


# ---- what Claude was told


@pytest.mark.parametrize("lost", [False, True])
async def test_what_a_person_denied_stays_denied(
    bench: Bench, cli: Cli, effects: Effects, *, lost: bool
) -> None:
    """The copy says it as the parent did, and a fork before it lists nothing that was done."""
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("look", {})), uses(("once", {"to": "b"})), says("I see."))
        await waiting(parent)
        await say(parent, "deny", "2.1", why="Never pay b.")
        await parent.ended()
        denied = told_last(parent)
        if lost:
            redis: Redis = bench.redis
            await redis.delete(bench.ledger(parent).key)
        bench.api.scripts[parent.name] = bench.script(uses(("look", {})), says("All right."))
        assert (await (await fork(cli, parent, "--step", "1")).ended()).text == "All right."
        assert "once" not in told_last(parent)
        again = await fork(cli, parent, "--step", "2", then=[says("I see again.")])
        result = await again.ended()
    assert "Never pay b." in denied
    assert told_last(parent) == denied
    assert (result.in_doubt, effects.done) == ((), [])


# ---- business keys


@pytest.mark.parametrize("ended", ["done", "lost"])
async def test_what_only_the_ledger_knows_of_a_key_is_recognised(
    bench: Bench, cli: Cli, effects: Effects, ended: str
) -> None:
    """The run ended before it heard of the call; asked for again, it is not fired again."""
    async with bench.worker(effects.app):
        parent, reply = await parted(bench, "buy")
        if ended == "done":
            await completed(bench, parent, reply, "bought before")
        else:
            assert await claimed(bench, parent, reply, 1) == "claimed"
        steps = uses(("look", {}), ("buy", {"to": "a"})), uses(("buy", {"to": "a"})), says()
        bench.api.scripts[parent.name] = bench.script(*steps)
        forked = await fork(cli, parent)
        await waiting(forked)
        await say(forked, "approve", "2.1")
        await forked.ended()
    expected = "Not done again: call" if ended == "done" else "an earlier call asked for the same"
    assert expected in told_last(parent)
    assert effects.done == []


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
