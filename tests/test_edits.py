"""A person approves a call with another input than Claude's: that one is judged, run and told."""

import json
import uuid
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, request_body, says, uses
from audited import by_call
from calls_prepared import RUN, opening_of, prepared_for
from crash_runs import CrashBench
from forked import fork, told_last
from people import refused, say, waiting
from test_carried_waits import continued

from activities.prepare import prepare_edited
from onward import Agent, Rule, ToolContext, tool
from onward.identity import fingerprint
from onward.wording import edited_note

pytestmark = pytest.mark.replay


class Shop:
    """A refund that always asks, and what it did."""

    def __init__(self) -> None:
        self.refunded = list[tuple[str, int]]()
        self.keys = list[str]()

        @tool(effect="keyed", ask="always", summary=lambda call: f"order {call['order']}")
        async def refund(order: str, cents: int, ctx: ToolContext) -> str:
            """Refund."""
            self.refunded.append((order, cents))
            self.keys.append(ctx.idempotency_key)
            return f"refunded {order}"

        never = Rule("deny", where=lambda call: call["cents"] > 1000, why="too much for anybody")
        self.app = app_of(refund, rules=[never])


def refunds(*orders: str) -> list[tuple[str, dict[str, Any]]]:
    return [("refund", {"order": order, "cents": 900}) for order in orders]


def sent(run: Run) -> list[dict[str, Any]]:
    """The messages of the last request."""
    messages: list[dict[str, Any]] = request_body(run.requests[-1])["messages"]
    return messages


NOT_TAKEN = {
    "not JSON": ("{", "is no JSON object"),
    "a list": ("[1]", "found JSON list, expected an object"),
    "NaN": ('{"order": "B", "cents": NaN}', "found NaN"),
    "an infinity": ('{"order": "B", "cents": 1e999}', "found the number 1e999"),
    "deep": (f'{{"order": {"[" * 300}{"]" * 300}}}', "nested 301 deep, expected 200 at most"),
    "a field too few": ('{"order": "B"}', "'cents' is a required property"),
    "another type": ('{"order": "B", "cents": "9"}', "cents: '9' is not of type 'integer'"),
    "denied": ('{"order": "B", "cents": 1001}', "denies this call: too much for anybody"),
}


async def test_an_edit_that_may_not_run_changes_nothing(bench: Bench) -> None:
    """Whoever edits is told what is wrong, and the call waits on as Claude asked for it."""
    shop = Shop()
    async with bench.worker(shop.app, max_cached_workflows=10):
        run = await bench.start(uses(*refunds("A")), says())
        before = await waiting(run)
        answers = {
            name: await refused(run, "approve", "1.1", edit=edit)
            for name, (edit, _) in NOT_TAKEN.items()
        }
        assert await waiting(run) == before
        await say(run, "approve", "1.1", view=before[0].view)
        await run.ended()
    wrong = {name: said for name, said in answers.items() if NOT_TAKEN[name][1] not in said}
    assert not wrong
    assert shop.refunded == [("A", 900)]
    await run.replay()


async def test_an_edited_call_is_another_call(bench: Bench, cli: Cli) -> None:
    """It runs once, with the person's input and its own key, and Claude is told which input ran.

    Claude finds its own words as it wrote them, and the audit agrees with the ledger.
    """
    shop = Shop()
    edit = '{"cents": 5, "order": "B"}'
    async with bench.worker(shop.app):
        run = await bench.start(uses(*refunds("A", "C")), says())
        await waiting(run, 2)
        answer = await say(run, "approve", "1.1", edit=edit)
        await say(run, "approve", "1.2", edit='{"cents": 900, "order": "C"}')  # as Claude asked
        assert (await run.ended()).outcome == "completed"
    assert (answer["summary"], shop.refunded) == ("order B", [("B", 5), ("C", 900)])
    _, asked, results = sent(run)
    assert [block["input"]["order"] for block in asked["content"]] == ["A", "C"]
    edited, untouched = (block["content"] for block in results["content"])
    assert [block["text"] for block in edited] == [edited_note(edit), "refunded B"]
    assert untouched == "refunded C"
    told = await cli("audit", run.name, "--verify", "--json")
    rows = by_call(json.loads(told.out))
    assert (told.code, rows["1.1"]["summary"]) == (0, "order B")
    assert rows["1.1"]["fingerprint"] == fingerprint("refund", edit)
    assert [rows[call]["key"] for call in ("1.1", "1.2")] == shop.keys
    await run.replay()


async def test_an_edit_outlives_a_wipe_and_continue_as_new(bench: Bench, cli: Cli) -> None:
    """Where Redis loses everything and the run goes on in new histories, the call ran once.

    What Claude was told of it is the same to the byte, and a fork of a fork tells it again.
    """
    shop, edit = Shop(), '{"order": "B", "cents": 5}'
    bench.history_events = 12
    async with bench.worker(shop.app):
        run = await bench.start(uses(*refunds("A", "C")), uses(*refunds("D")), says())
        await waiting(run, 2)
        await say(run, "approve", "1.2", edit=edit)
        await continued(run)  # edited in one workflow run, and run in another
        for call in ("1.1", "2.1"):
            await waiting(run)
            await bench.redis.delete(bench.ledger(run).key)
            await say(run, "approve", call)
        assert (await run.ended()).outcome == "completed"
        forked = await fork(cli, run, "--step", "1", "--yes", then=[says("Going on.")])
        await forked.ended()
        again = await fork(cli, forked, "--step", "1")
        assert (await again.ended()).outcome == "completed"
    assert shop.refunded == [("A", 900), ("B", 5), ("D", 900)]
    told = told_last(run)
    assert "refunded B" in told
    assert json.dumps(edited_note(edit))[1:-1] in told
    await run.replay()


@pytest.mark.crash
async def test_an_edited_call_is_done_once_whatever_dies(crash_bench: CrashBench) -> None:
    """The worker is killed after its request, and Redis wiped: the next one has the same key.

    It asks for what the person wrote, and never for what Claude did.
    """
    mine, claudes = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("edited", "asked"))
    bench, app = crash_bench.bench, {"ONWARD_APP": "approval_app:app"}
    async with crash_bench.worker(**app, FP="f7:1:kill") as worker:
        run = await bench.start(uses(("refund", {"order": claudes})), says())
        await waiting(run)
        await say(run, "approve", "1.1", edit=json.dumps({"order": mine}))
        await worker.killed()
    await bench.redis.delete(bench.ledger(run).key)
    async with crash_bench.worker(**app):
        result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    assert [crash_bench.effects(order) for order in (mine, claudes)] == [1, 0]
    assert (crash_bench.arrivals(mine), crash_bench.arrivals(claudes)) == (2, 0)


def test_an_edit_names_what_is_asked_for_anew() -> None:
    """The business key is of the edited input: the call must not get another order's result."""

    @tool(effect="keyed", ask="always", key_from=lambda call: call["order"])
    async def refund(order: str) -> str:
        """Refund."""
        return order

    agent = Agent("tester", model="m", tools=[refund])
    a, b = (prepared_for(agent, "refund", f'{{"order": "{order}"}}') for order in "AB")
    edited = prepare_edited(RUN, a, '{"order": "B"}', opening_of(agent), agent)
    assert (edited.business, edited.key, edited.fingerprint) == (b.business, b.key, b.fingerprint)
    assert (edited.ask, edited.asked, edited.tool_use_id) == (a.ask, a.fingerprint, a.tool_use_id)
    again = prepare_edited(RUN, edited, '{"order":"A"}', opening_of(agent), agent)
    assert again == a
