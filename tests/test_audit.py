"""`onward audit`: what became of every effect, and whether ledger and history agree."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, says, uses
from audited import by_call, refund
from people import say, say_in_time, waiting

from onward import tool
from onward.identity import fingerprint, idempotency_key, run_key
from onward.testing import wait_until

SHORT_S = 0.5


@tool(effect="keyed", key_from=lambda call: str(call["order"]))
async def ship(order: str) -> str:
    """Ship."""
    return f"shipped {order}"


class Payout:
    """A payment whose outcome is not known the first time."""

    def __init__(self) -> None:
        self.sent = 0

        @tool(moves_money=True, timeout_s=SHORT_S)
        async def pay_out(to: str) -> str:
            """Pay out."""
            self.sent += 1
            if to == "second" or self.sent == 1:
                raise httpx2.ReadTimeout("no answer")
            return f"paid {to}"

        self.tool = pay_out


@tool(effect="at_most_once")
async def text_back(to: str) -> str:
    """Text back; Claude is told where it is not known whether it went out."""
    raise httpx2.ReadTimeout(f"no answer about {to}")


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


async def of_every_kind(bench: Bench) -> Run:
    """Run calls that end in every way; people have a word in four of them."""
    bench.takeover_s = 1.0
    async with bench.worker(app_of(refund, ship, Payout().tool, text_back, look)):
        run = await bench.start(
            uses(
                ("refund", {"cents": 5}),
                ("refund", {"cents": 13}),
                ("look", {}),
                ("refund", {"cents": 60}),
                ("refund", {"cents": 70}),
                ("refund", {"cents": "x"}),
                ("ship", {"order": "A-1"}),
                ("ship", {"order": "A-1"}),
                ("pay_out", {"to": "first"}),
                ("pay_out", {"to": "second"}),
                ("text_back", {"to": "cat"}),
                ("refund", {"cents": 6}),
            ),
            says(),
        )
        await waiting(run, 2)
        await say(run, "deny", "1.5", why="too much")
        await say(run, "approve", "1.4")
        await waiting(run)
        await say_in_time(run, "1.9", "retry")
        await waiting(run)
        await say(run, "resolve", "1.10", outcome="done", note="on the statement")
        await run.ended()
    return run


async def change(bench: Bench, run: Run, step: str, **fields: Any) -> str:
    """Change fields of a record in Redis behind everybody's back; returns the text before."""
    redis: Any = bench.redis
    key, name = bench.ledger(run).key, f"s:{step}"
    before = (await redis.hget(key, name)).decode()
    await redis.hset(key, name, json.dumps(json.loads(before) | fields))
    return str(before)


async def put_back(bench: Bench, run: Run, step: str, text: str) -> None:
    redis: Any = bench.redis
    await redis.hset(bench.ledger(run).key, f"s:{step}", text)


async def test_every_effect_is_accounted_for(cli: Cli, bench: Bench) -> None:
    """Call by call it says what was asked under which key, who decided, and what came of it.

    What was tampered with or lost in Redis is found, entry by entry.
    """
    run = await of_every_kind(bench)
    ran = await cli("audit", run.name, "--verify", "--json")
    assert (ran.code, ran.json["verified"], ran.json["differences"]) == (0, True, [])
    assert (ran.json["unknown"], ran.json["compared"]) == ([], 13)
    check_outcomes(by_call(ran.json))
    check_row(by_call(ran.json)["1.1"], run)
    check_people(by_call(ran.json))
    check_retry(by_call(ran.json))
    assert "1.3" in by_call((await cli("audit", run.name, "--all", "--json")).json)
    await check_text(cli, run)
    await check_tampering(cli, bench, run)
    await check_loss(cli, bench, run)


def check_outcomes(rows: dict[str, dict[str, Any]]) -> None:
    found = {call: row["outcome"] for call, row in rows.items()}
    assert found == {
        "1.1": "done",
        "1.2": "failed",
        "1.4": "done",
        "1.5": "denied",
        "1.6": "not run",
        "1.7": "done",
        "1.8": "repeated",
        "1.9": "done",
        "1.10": "done",
        "1.11": "in doubt",
        "1.12": "not run",
    }
    assert list(rows) == list(found)
    assert "no such order" in rows["1.2"]["why"]
    assert rows["1.8"]["first_call"].endswith(" 1.7")
    assert rows["1.8"]["key"] == rows["1.7"]["key"]


def check_row(row: dict[str, Any], run: Run) -> None:
    fp = fingerprint("refund", '{"cents": 5}')
    whole = run_key(run.name, run.handle.first_execution_run_id or "")
    assert (row["tool"], row["class"], row["fingerprint"]) == ("refund", "keyed", fp)
    assert row["key"] == idempotency_key("default", whole, "1.1", fp)
    assert (row["claims"], row["attempts"], row["recorded"]) == (1, 1, True)
    assert row["known_by"] == ["history", "ledger"]
    assert row["scheduled_at"] <= row["first_claim_at"][:23] + "999" <= row["ended_at"] + "~"


def check_people(rows: dict[str, dict[str, Any]]) -> None:
    said = {
        call: [(each["what"], each["by_as_claimed"], each["said"]) for each in row["decisions"]]
        for call, row in rows.items()
        if row["decisions"]
    }
    assert said == {
        "1.4": [("approved", "operator@desk", "")],
        "1.5": [("denied", "operator@desk", "too much")],
        "1.9": [("resolved", "operator@desk", "retry")],
        "1.10": [("resolved", "operator@desk", "done: on the statement")],
    }
    for call in ("1.9", "1.10"):
        assert "ReadTimeout" in rows[call]["decisions"][0]["doubt"]


def check_retry(rows: dict[str, dict[str, Any]]) -> None:
    """The ledger counts a call anew when a person has it tried again; what it says is said so."""
    retried = rows["1.9"]
    assert retried["claims"] == 1
    assert retried["claims_since"] == retried["decisions"][0]["at"] < retried["first_claim_at"]
    assert rows["1.10"]["claims_since"] is None


async def check_text(cli: Cli, run: Run) -> None:
    shown = (await cli("audit", run.name, "--verify")).out
    assert "by operator@desk, as their client claimed: too much" in shown
    assert "not done again: first done by" in shown
    total = "5 done, 1 failed, 1 denied, 2 not run, 1 repeated, 1 in doubt"
    assert f"11 calls of run {run.name}: {total}" in shown
    assert "1 claim since the retry" in shown
    assert "first claimed since the retry" in shown
    assert shown.count("was in doubt") == 2
    assert "outcome  not run, because the outcome of call 1.11 before it is unknown" in shown
    assert "verified: 13 records" in shown


async def check_tampering(cli: Cli, bench: Bench, run: Run) -> None:
    """Each kind of change is told with both values."""
    forged = json.dumps({"status": "done", "content": '"refunded 500"'})
    changes: list[tuple[str, dict[str, Any], str]] = [
        ("1.1", {"res": forged}, "result"),
        ("1.2", {"st": "done"}, "state"),
        ("1.4", {"fp": "0" * 64}, "fingerprint"),
        ("1.9", {"cls": "keyed"}, "class"),
        ("1.7", {"v": 99}, "record"),
        ("1.10", {"by": "eve@desk"}, "name of who resolved it"),
        ("2", {"res": "no result"}, "result"),
        ("1", {"res": "{}"}, "result"),
    ]
    before = {step: await change(bench, run, step, **fields) for step, fields, _ in changes}
    ran = await cli("audit", run.name, "--verify", "--json")
    found = {each["position"]: each["what"] for each in ran.json["differences"]}
    assert (ran.code, ran.json["verified"]) == (1, False)
    assert found == {step: what for step, _, what in changes}
    assert all(each["history"] and each["ledger"] for each in ran.json["differences"])
    assert "differs: 1.2: the state differs" in (await cli("audit", run.name, "--verify")).out
    for step, text in before.items():
        await put_back(bench, run, step, text)


async def check_loss(cli: Cli, bench: Bench, run: Run) -> None:
    """A lost record does not agree; nor do all of them, and then history alone tells the rest."""
    redis: Any = bench.redis
    key = bench.ledger(run).key
    assert await redis.pttl(key) > 0, "looking made records stay that were to expire"
    await redis.hdel(key, "s:1.10", "s:1.4", "s:1", "s:0")
    lost = await cli("audit", run.name, "--verify", "--json")
    assert [each["text"] for each in lost.json["differences"]] == [
        f"{place}: the record differs; history has done, the ledger lost it"
        for place in ("beginning", "step 1's request", "1.4", "1.10")
    ]
    await redis.delete(key)
    wiped = await cli("audit", run.name, "--verify", "--json")
    (all_lost,) = wiped.json["differences"]
    words = "all: the records differ; history has 13, the ledger lost them all"
    assert (wiped.code, wiped.json["verified"], all_lost["text"]) == (1, False, words)
    assert "holds no record of this run" in wiped.json["unknown"][0]
    rows = by_call(wiped.json)
    check_outcomes(rows)
    check_people(rows)
    assert {(row["claims"], row["first_claim_at"]) for row in rows.values()} == {(None, None)}


async def test_a_run_that_goes_on_is_told_as_it_stands(
    cli: Cli, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits and what is in doubt is said without a worker; without Redis, what is not known.

    A run that was cut off claims no end that nobody saw.
    """
    async with bench.worker(app_of(refund, Payout().tool)):
        run = await bench.start(
            uses(("pay_out", {"to": "first"}), ("refund", {"cents": 60}), ("refund", {"cents": 5})),
            says(),
        )
        await waiting(run, 2)
    ran = await cli("audit", run.name, "--verify", "--json")
    rows = by_call(ran.json)
    assert (ran.code, ran.json["verified"]) == (0, True)
    assert [row["outcome"] for row in rows.values()] == ["in doubt", "waiting", "waiting"]
    assert "ReadTimeout" in rows["1.1"]["why"]
    assert "approval" in rows["1.2"]["why"]
    await run.handle.terminate()
    ended = by_call((await cli("audit", run.name, "--json")).json)
    assert [row["outcome"] for row in ended.values()] == ["in doubt", "not run", "not run"]
    monkeypatch.setenv("ONWARD_REDIS_URL", "redis://127.0.0.1:1/0")
    away = await cli("audit", run.name, "--verify", "--json")
    assert (away.code, away.json["verified"]) == (3, None)
    assert "cannot be asked" in away.json["unknown"][0]
    assert by_call(away.json)["1.1"]["outcome"] == "in doubt"
    assert (await cli("audit", run.name)).code == 0
    assert (await cli("audit", "no-such-run")).code == 4


@asynccontextmanager
async def at_work(bench: Bench) -> AsyncGenerator[Run]:
    """A run whose call is tried again and again."""

    @tool(effect="keyed")
    async def act() -> str:
        """Act."""
        raise httpx2.ReadTimeout("no answer")

    async with bench.worker(app_of(act)):
        run = await bench.start(uses(("act", {})), says())

        async def failing() -> bool:
            return "no known outcome" in await run.failing_activity()

        await wait_until(failing, 20, what="a first failed attempt")
        yield run
        await run.handle.terminate()


async def test_what_is_under_way_is_no_difference(cli: Cli, bench: Bench) -> None:
    """While a call is tried again the ledger is ahead; once the run was cut off, it is in doubt.

    Where a fork has proved since that it never ran, and closed it, that is said.
    """
    async with at_work(bench) as run:
        ran = await cli("audit", run.name, "--verify", "--json")
        (row,) = ran.json["effects"]
        assert (ran.code, row["outcome"], ran.json["differences"]) == (0, "under way", [])
        assert row["attempts"] >= 1
        assert "no known outcome" in row["why"]
    cut = await cli("audit", run.name, "--verify", "--json")
    (row,) = cut.json["effects"]
    assert [each["position"] for each in cut.json["differences"]] == ["1.1"]
    assert (row["outcome"], row["why"]) == ("in doubt", "the run ended while it was under way")
    never = json.dumps({"status": "failed", "content": '"not run"', "is_error": True})
    await change(bench, run, "1.1", st="failed", own="fork:run-9", res=never)
    closed = await cli("audit", run.name, "--verify", "--json")
    (row,) = closed.json["effects"]
    assert (closed.code, row["outcome"], "its fork (run-9)" in row["why"]) == (0, "not run", True)
