"""`fork` goes on from a copy of another run's conversation, and no effect happens twice."""

from dataclasses import replace
from pathlib import Path

import forked as forks
import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, request_body, says, uses
from forked import Effects, asked, fork, found, messages, three_steps, told_last
from people import waiting
from redis.asyncio import Redis
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import activities.fork
from onward.messages import Opening, RunResult
from onward.own_history import Told, read_history
from onward.transcript import BEGINNING

pytestmark = pytest.mark.replay
effects = forks.effects


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
    last, first = request_body(parent.requests[-1]), request_body(parent.requests[0])
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
        assert "2 steps copied; your limits count from here" in ran.err
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


async def test_a_program_is_told_what_was_done_since(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """Both where --yes is missing and where the fork starts: it need not read words for people."""
    since = {"call": "3.1", "what": "act (what=second)", "outcome": "done"}
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        typed = ("--step", "1", "--message", "Differently.", "--json")
        _, refused = await asked(cli, parent, *typed)
        assert (refused.code, refused.json) == (2, {"effects_after": [since]})
        bench.api.scripts[parent.name] = bench.script(says("First."), says("Done."))
        new, started = await asked(cli, parent, *typed, "--yes")
        await found(bench, new).ended()
    assert (started.json["run"], started.json["effects_after"]) == (new, [since])


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


async def first_of(forked: Run) -> Run:
    """The fork by its one workflow run, as a reset needs it."""
    first = (await forked.handle.describe()).run_id
    forked.handle = forked.bench.temporal.get_workflow_handle(
        forked.name, run_id=first, first_execution_run_id=first, result_type=RunResult
    )
    return forked


async def test_a_reset_gives_the_same_fork(bench: Bench, cli: Cli, effects: Effects) -> None:
    """Temporal's reset of a fork to its first task makes the copy again, and repeats no effect."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        then = [uses(("act", {"what": "third"})), says("Done.")]
        forked = await fork(cli, parent, "--message", "Go on.", then=then)
        await forked.ended()
        result = await (await (await first_of(forked)).reset_to_first_task()).ended()
    assert (result.outcome, result.text) == ("completed", "Done.")
    assert effects.done == ["first", "second", "third"]


async def test_claude_is_told_what_a_reset_cut_off(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """History lost it, the ledger did not: Claude and the person are told tool, input, result."""
    async with bench.worker(effects.app):
        run = await three_steps(bench)
    parent = await (await first_of(run)).reset_to_task(2)  # Claude has answered once
    await parent.handle.signal("cancel")
    async with bench.worker(effects.app):
        await parent.ended()
        _, ran = await asked(cli, parent)
        assert (ran.code, "3.1 act (what=second): done" in ran.err) == (2, True)
        forked = await fork(cli, parent, "--yes", then=[says("I see.")])
        await forked.ended()
    notice = messages(parent)[-1]["content"][-1]["text"]
    assert '- act (what=second): done. Its result: "did second"' in notice
    assert effects.done == ["first", "second"]


async def test_a_reset_after_the_parent_has_expired_is_refused(
    bench: Bench, cli: Cli, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy cannot be made again: the run fails at once, says why, and asks Claude nothing."""
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        forked = await fork(cli, parent, "--message", "Go on.", then=[says("Done.")])
        await forked.ended()
        asked_before = len(parent.requests)
        forget(monkeypatch, parent.name)
        reset = await (await first_of(forked)).reset_to_first_task()
        result = await reset.failed()
    assert result.outcome == "failed"
    assert "the run to copy cannot be told, so nothing begins" in result.detail
    assert "closed runs are forgotten after the namespace's retention" in result.detail
    assert (len(parent.requests), effects.done) == (asked_before, ["first", "second"])


def forget(monkeypatch: pytest.MonkeyPatch, workflow_id: str) -> None:
    """Answer as Temporal does after the retention; deleting for real takes it half a minute."""

    async def read_if_kept(client: Client, name: str, run_id: str, *, stores: bool = False) -> Told:
        if name == workflow_id:
            raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
        return await read_history(client, name, run_id, stores=stores)

    monkeypatch.setattr(activities.fork, "read_history", read_if_kept)


async def test_a_run_that_continued_as_new_is_copied_whole(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """Its segments are read too; a long result that was copied can still be read on in."""
    bench.history_events = 20
    async with bench.worker(effects.app):
        steps = [uses(("long", {})), *(uses(("act", {"what": str(n)})) for n in range(4))]
        parent = await bench.start(*steps, says("That is all."))
        await parent.ended()
        assert len(await parent.chain()) > 1
        then = [uses(("read_result", {"call": "1.1", "offset": 100_000})), says("Read.")]
        forked = await fork(cli, parent, "--message", "Read on.", then=then)
        assert (await forked.ended()).text == "Read."
        shown = await cli("transcript", forked.name)
    assert "bytes 100000 to" in told_last(parent)
    assert shown.out.count("\n── step") == len(steps) + 3
    assert effects.done == list("0123")


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


async def test_what_claude_said_before_it_declined_is_left_out(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """A conversation with a refused reply in it would be refused again, and again."""
    refused = uses(("act", {"what": "a"}), stop_reason="refusal")
    async with bench.worker(effects.app):
        parent = await bench.start(uses(("look", {})), refused)
        assert (await parent.ended()).outcome == "refused"
        # Claude's side counts its turns in the request, and the refused one is not there.
        bench.api.scripts[parent.name] = bench.script(uses(("look", {})), says("Done."))
        forked = await fork(cli, parent, "--message", "Other words.")
        result = await forked.ended()
    sent = request_body(parent.requests[-1])["messages"]
    roles = [message["role"] for message in sent]
    assert (result.outcome, effects.done) == ("completed", [])
    assert roles == ["user", "assistant", "user", "user"]
    assert sent[-1]["content"] == [{"type": "text", "text": "Other words."}]


async def test_a_fork_begins_as_a_run_of_its_own_model_would(
    bench: Bench, cli: Cli, effects: Effects
) -> None:
    """The model is the parent's: one that makes no summaries is not asked for one."""
    agents = effects.app.agents
    agents["tester"] = replace(agents["tester"], model="claude-haiku-4-5")
    async with bench.worker(effects.app):
        parent = await three_steps(bench)
        agents["tester"] = replace(agents["tester"], model="claude-haiku-5-5")
        forked = await fork(cli, parent, "--message", "On.", then=[says("Done.")])
        await forked.ended()
    newest = (await forked.handle.describe()).run_id
    told = await read_history(bench.temporal, forked.name, newest)
    opening = Opening.model_validate_json(told.records[BEGINNING].result or "")
    assert (opening.compacts, opening.reads_in_step) == (False, True)


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
    assert (empty.code, "--message is empty" in empty.err) == (2, True)
    assert (await cli("fork", "no-such-run")).code == 4


async def test_a_payload_that_is_gone_is_named(
    bench: Bench, cli: Cli, effects: Effects, tmp_path: Path
) -> None:
    """Nothing is started on half a conversation: which file is missing, and where to get it."""
    async with bench.worker(effects.app):
        parent = await bench.start(*(uses(("long", {})) for _ in range(3)), says())
        await parent.ended()
    files = [each for each in (tmp_path / "payloads").rglob("*") if each.is_file()]
    for each in files:
        each.unlink()
    _, ran = await asked(cli, parent, "--message", "On.")
    assert ran.code == 1
    assert any(f"cannot read payload {each.name}" in ran.err for each in files)
    assert "restore the file from a backup" in ran.err


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
