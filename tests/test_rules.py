"""An agent's rules: which calls run at once, which ask a person, which never run."""

import json
import threading
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from agent_runs import Bench, app_of, says, uses
from calls_prepared import prepared_for
from people import say, waiting

from onward import Agent, Rule, tool
from onward.errors import AppError
from onward.rules import Where

ALLOW, ASK, DENY = Rule("allow"), Rule("ask", why="company rule"), Rule("deny", why="never")
GIVEN = '{"order": "A-7", "cents": 60}'
OWN = "the tool asks a person first for such an input"
BY_RULE = "a rule of this agent asks a person first"


@tool(effect="keyed", ask=lambda call: call["cents"] > 50)
async def refund(order: str, cents: int, tags: list[str] | None = None) -> str:
    """Refund."""
    return f"refunded {order} {cents} {tags}"


@tool(effect="read")
async def look(path: str) -> str:
    """Look."""
    return path


def judged(*rules: Rule, cents: int = 60, **given: Any) -> str:
    """Say what becomes of a refund: `run`, `ask: …` or `deny: …`."""
    agent = Agent("tester", model="m", tools=[refund, look], rules=rules)
    text = json.dumps({"order": "A-7", "cents": cents, **given})
    call = prepared_for(agent, "refund", text)
    assert not (call.refusal and call.ask)
    return f"deny: {call.refusal}" if call.refusal else f"ask: {call.ask}" if call.ask else "run"


@pytest.mark.parametrize(
    ("rules", "cents", "expected"),
    [
        ((), 60, f"ask: {OWN}"),
        ((), 50, "run"),
        ((ALLOW,), 60, "run"),
        ((ASK,), 50, "ask: company rule"),
        ((ASK,), 60, f"ask: company rule; {OWN}"),
        ((ASK, ALLOW), 60, "ask: company rule"),
        ((ASK, Rule("ask"), ASK), 50, f"ask: company rule; {BY_RULE}"),
        ((DENY, ASK, ALLOW), 50, "deny: A rule of this agent denies this call: never. "),
        ((Rule("deny"),), 50, "deny: A rule of this agent denies this call. "),
    ],
)
def test_the_strictest_word_counts_in_any_order(
    rules: tuple[Rule, ...], cents: int, expected: str
) -> None:
    """A rule cannot lose its force by being written below another one."""
    for order in permutations(rules):
        found = judged(*order, cents=cents)
        reasons = expected.removeprefix("ask: ").split("; ")
        assert found.startswith(expected[:4])
        assert all(reason in found for reason in reasons), found


ABOUT: list[tuple[str, Where | None, bool]] = [
    ("refund", None, True),
    ("re*", None, True),
    ("look", None, False),
    ("*", {"order": "A-*"}, True),
    ("*", {"order": "a-*"}, False),
    ("*", {"order": "A-*", "cents": "6?"}, True),
    ("*", {"order": "A-*", "cents": "7?"}, False),
    ("*", {"tags": '["vip",*'}, True),
    ("*", {"tags": "vip"}, False),
    ("*", {"note": "*"}, False),
    ("*", lambda call: call["cents"] == 60, True),
    ("*", lambda call: call["cents"] == 61, False),
    ("look", lambda call: call["nothing"], False),
]


@pytest.mark.parametrize(("tool_pattern", "where", "fits"), ABOUT)
def test_a_rule_is_about_the_calls_that_it_names(
    tool_pattern: str, where: Where | None, *, fits: bool
) -> None:
    """By tool and by input: names and values fit whole, case and JSON as they are."""
    rule = Rule("deny", tool_pattern, where)
    assert judged(rule, tags=["vip", "old"]).startswith("deny" if fits else "ask")


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("allow", f"ask: {OWN}"),
        ("ask", "whether to ask could not be decided: KeyError: 'nothing'"),
        ("deny", "whether to deny could not be decided: KeyError: 'nothing'"),
    ],
)
def test_a_rule_that_fails_lets_nothing_run(decision: Any, expected: str) -> None:
    """Whoever cannot tell must not act alone, and a slip in a rule must not end all calls."""
    found = judged(Rule(decision, where=lambda call: call["nothing"]))
    assert found.startswith("ask: ")
    assert expected in found


def exits(call: dict[str, Any]) -> Any:
    """Fail as a function does that was written for a command, of an input that no text may hold."""
    raise SystemExit(call["order"])


@tool(effect="keyed", ask=exits, summary=exits, key_from=exits)
async def exiting(order: str) -> str:
    """Refund."""
    return order


@tool(ask=exits, summary=exits)
async def asking(order: str) -> str:
    """Refund."""
    return order


def test_a_function_of_the_app_that_exits_ends_no_worker() -> None:
    """It would end each worker in turn, and each of them pays for the reply anew."""
    given = r'{"order": "half \ud83d"}'
    agent = Agent("t", model="m", tools=[exiting, asking])
    assert "SystemExit: half \ufffd" in (prepared_for(agent, "exiting", given).refusal or "")
    assert (
        "could not be decided: SystemExit: half \ufffd" in prepared_for(agent, "asking", given).ask
    )


async def test_a_function_of_the_app_may_block(bench: Bench) -> None:
    """It runs apart: on the worker's loop the lease runs out, and Claude is paid for it again."""
    threads: list[threading.Thread] = []

    def ask(_: dict[str, Any]) -> bool:
        threads.append(threading.current_thread())
        return False

    @tool(effect="read", ask=ask)
    async def act() -> None:
        """Act."""

    await bench.run(app_of(act), uses(("act", {})), says())
    assert [thread is threading.main_thread() for thread in threads] == [False]


def test_silence_is_no_yes_where_a_rule_failed() -> None:
    """`at_ask_timeout="approve"` is for calls that were judged: any other is denied in the end."""
    later: dict[str, Any] = {"ask_timeout_s": 60, "at_ask_timeout": "approve"}
    broken = Rule("deny", where=lambda call: call["nothing"])
    ends = [
        prepared_for(Agent("t", model="m", tools=[refund], rules=rules, **later), "refund", GIVEN)
        for rules in ((), (broken,))
    ]
    assert [(call.expires_s, call.otherwise) for call in ends] == [(60, "approve"), (60, "deny")]


def test_a_call_that_needs_nobody_has_no_time_to_run_out() -> None:
    """What is not asked for cannot be denied by silence."""
    agent = Agent("t", model="m", tools=[refund], rules=[ALLOW], ask_timeout_s=60)
    call = prepared_for(agent, "refund", GIVEN)
    assert (call.ask, call.expires_s) == ("", 0)


def test_a_rule_to_ask_keeps_the_cache_for_people() -> None:
    """Whoever is asked takes more than five minutes, whoever has them asked."""
    cached = [
        Agent("a", model="m", tools=[look], rules=rules).cached
        for rules in ((), (Rule("deny", "look"),), (Rule("ask", "look"),))
    ]
    assert cached == ["auto", "auto", "1h"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Rule("perhaps"), "decision 'perhaps'; use one of 'allow', 'ask', 'deny'"),  # type: ignore[arg-type]
        (lambda: Rule("deny", ""), "empty tool"),
        (lambda: Rule("deny", where={}), "use field names with a text for each"),
        (lambda: Rule("deny", where={"cents": 5}), "use field names with a text for each"),  # type: ignore[dict-item]
        (lambda: Rule("deny", where="cents"), "a dict, or a function of the call"),  # type: ignore[arg-type]
        (lambda: Rule("deny", where=lambda: True), "a dict, or a function of the call"),  # type: ignore[arg-type,misc]
        (lambda: Rule("deny", where=_later), "async where"),  # type: ignore[arg-type]
        (lambda: _agent(rules=[Rule("deny", "refnd")]), "'refnd', which is none of its tools"),
        (lambda: _agent(rules=["deny"]), "'deny' as a rule"),
        (lambda: _agent(rules=Rule("deny")), "use a list of onward.Rule"),
        (lambda: _agent(ask_timeout_s=0), "ask_timeout_s 0; use seconds"),
        (lambda: _agent(ask_timeout_s=float("inf")), "ask_timeout_s inf; use seconds"),
        (lambda: _agent(ask_timeout_s=True), "ask_timeout_s True; use seconds"),
        (lambda: _agent(at_ask_timeout="approve"), "no ask_timeout_s; give it both"),
        (lambda: _agent(ask_timeout_s=9, at_ask_timeout="ask"), "use one of 'deny', 'approve'"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(
    make: Callable[[], object], said: str
) -> None:
    """A misspelt rule would protect nothing, and nobody would see it."""
    with pytest.raises(AppError) as caught:
        make()
    assert said in str(caught.value)


async def _later(call: dict[str, Any]) -> bool:
    return bool(call)


def _agent(**options: Any) -> Agent:
    return Agent("tester", model="m", tools=[refund, look], **options)


async def test_rules_hold_for_reads_too(bench: Bench) -> None:
    """A read tells Claude what it may not see: denied, it never runs; asked, a person lets it."""
    seen: list[str] = []

    @tool(effect="read")
    async def look(path: str) -> str:
        """Look."""
        seen.append(path)
        return path

    rules = [
        Rule("deny", "look", {"path": "*.env"}, why="secrets stay here"),
        Rule("ask", "look", {"path": "/etc/*"}),
    ]
    calls = [("look", {"path": path}) for path in ("a.txt", ".env", "/etc/hosts")]
    async with bench.worker(app_of(look, rules=rules)):
        run = await bench.start(uses(*calls), says())
        (asked,) = await waiting(run)
        assert (asked.call, asked.why) == ("1.3", BY_RULE)
        await say(run, "deny", "1.3")
        result = await run.ended()
    assert (result.outcome, seen) == ("completed", ["a.txt"])
    told = run.requests[-1].body
    assert "A rule of this agent denies this call: secrets stay here. Nothing was done." in told
