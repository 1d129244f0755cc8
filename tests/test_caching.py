"""Marks for the API's prompt cache: where they are put, and what a run reads from it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from agent_runs import Bench, app_of, uses
from crash_runs import CrashBench
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import Agent, claude_request, json_text, tool
from onward.caching import MAX_MARKS, Lifetime, MessageMarks, lifetime_of, mark_messages
from onward.claude_request import reply_request, summary_request
from onward.messages import CachePolicy, Opening, Spend
from onward.testing.messages_api import Step
from onward.testing.messages_api.cache_checks import mark_violations
from onward.testing.messages_api.prompt import prefixes

STEPS = 40
WORDS = "One word after the other, and each of them is read again with every step. " * 20
"""About 370 tokens: what Claude says in a step."""

Body = dict[str, Any]


@tool(effect="read")
async def look(page: int) -> str:
    """Look at a page."""
    return f"Page {page}. {WORDS}"


def pages(count: int, at_once: int = 1) -> list[Step]:
    """So many steps in which Claude looks at pages, and one in which it ends."""
    says = {"type": "text", "text": WORDS}
    calls = [uses(*[("look", {"page": n})] * at_once).content for n in range(count - 1)]
    return [*(Step(content=[says, *asked]) for asked in calls), Step(content=[says])]


def read_share(spend: Spend) -> float:
    """Part of all input tokens that were read from the cache."""
    written = spend.cache_write_tokens
    return spend.cache_read_tokens / (spend.input_tokens + spend.cache_read_tokens + written)


# ---- what a run reads from the cache


async def test_a_run_reads_most_of_its_input_from_the_cache(bench: Bench) -> None:
    """An append-only run of forty steps pays in full only for what each of them adds."""
    async with bench.worker(app_of(look), max_cached_workflows=10):
        spend = (await (await bench.start(*pages(STEPS))).ended()).spend
    assert spend.requests == STEPS
    assert read_share(spend) >= 0.9


@pytest.mark.crash
async def test_a_crash_and_continue_as_new_lose_nothing_of_the_cache(
    crash_bench: CrashBench,
) -> None:
    """Another worker, in another workflow run, puts its marks where the one before had them."""
    says = {"type": "text", "text": WORDS}
    call = {"type": "tool_use", "name": "look_up", "input": {"order": "o-cached"}}
    steps = [*[Step(content=[says, call])] * (STEPS - 1), Step(content=[says])]
    env = {"ONWARD_HISTORY_EVENTS": "40"}
    async with crash_bench.worker(FP=f"f7:{STEPS // 2}:kill", **env) as worker:
        run = await crash_bench.bench.start(*steps)
        await worker.killed()
    async with crash_bench.worker(**env):
        spend = (await run.ended()).spend
    assert spend.requests >= STEPS
    assert len(await run.chain()) > 3
    assert read_share(spend) >= 0.9


async def test_a_step_may_add_more_blocks_than_the_api_looks_back_over(bench: Bench) -> None:
    """Fifteen calls and their results are thirty blocks; the last request's end is found still."""
    run = await bench.run(app_of(look, system=WORDS * 2), *pages(6, at_once=15))
    assert run.result is not None
    total = run.result.spend
    added = total.input_tokens + total.cache_write_tokens
    last = prefixes("", json.loads(run.requests[-1].body))[-1].tokens
    assert added == last  # each token is written once


async def test_a_bad_placement_is_seen_to_be_bad(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark on the first message alone leaves all that grows to be paid in full."""

    def first_alone(messages: Sequence[bytes], marks: MessageMarks) -> Sequence[bytes]:
        return [*mark_messages(messages[:1], marks), *messages[1:]]

    monkeypatch.setattr(claude_request, "mark_messages", first_alone)
    run = await bench.run(app_of(look, system=WORDS * 2), *pages(12))
    assert run.result is not None
    assert 0 < read_share(run.result.spend) < 0.5


async def test_a_run_whose_tools_ask_people_is_kept_for_an_hour(bench: Bench) -> None:
    """From its first request on: how long a person will take is not known before the wait."""

    @tool(ask="always")
    async def act() -> None:
        """Act."""

    app = app_of(act, system=WORDS * 2)
    run = await bench.run(app, Step(content=[{"type": "text", "text": WORDS}]))
    assert run.result is not None
    spend = run.result.spend
    assert spend.cache_write_tokens == spend.cache_write_1h_tokens > 500


# ---- where the marks are

REPLY = b'{"role":"assistant","content":[{"type":"text","text":"Yes."}]}'
ASKED = b'{"role":"user","content":[{"type":"text","text":"Go."}]}'
TOOL = {"name": "look", "input_schema": {"type": "object"}}


def frozen(**fields: Any) -> str:
    return json.dumps({"model": "claude-sonnet-5-5", "max_tokens": 9, **fields})


def sent(messages: Sequence[bytes], lifetime: Lifetime | None = "5m", **fields: Any) -> Body:
    body: Body = json.loads(reply_request(frozen(**fields), messages, (), lifetime).body)
    return body


def marks(body: Body) -> list[str]:
    """Where a request is marked, and for how long."""
    system: list[Body] = [] if isinstance(body.get("system", ""), str) else body["system"]
    places = [
        *((f"tools.{n}", each) for n, each in enumerate(body.get("tools", ()))),
        *((f"system.{n}", each) for n, each in enumerate(system)),
        *(
            (f"messages.{m}.{n}", each)
            for m, message in enumerate(body["messages"])
            for n, each in enumerate(message["content"])
        ),
    ]
    return [
        f"{place} {each['cache_control'].get('ttl', '5m')}"
        for place, each in places
        if "cache_control" in each
    ]


def test_a_request_is_marked_at_its_four_ends() -> None:
    """Tools, system prompt, the end of the last request and the end of this one."""
    body = sent([ASKED, REPLY, ASKED, REPLY, ASKED], system="Be brief.", tools=[TOOL, TOOL])
    assert marks(body) == ["tools.1 5m", "system.0 5m", "messages.2.0 5m", "messages.4.0 5m"]
    assert body["system"][0]["text"] == "Be brief."


def test_an_hour_is_asked_for_at_every_mark() -> None:
    """The API refuses an hour after five minutes, so all have one lifetime."""
    body = sent([ASKED, REPLY, ASKED], "1h", tools=[TOOL])
    assert marks(body) == ["tools.0 1h", "messages.0.0 1h", "messages.2.0 1h"]


def test_a_run_that_is_not_cached_sends_no_mark() -> None:
    """`cache="off"` is for gateways that refuse them, and for runs of older releases."""
    body = sent([ASKED, REPLY, ASKED], None, system="Be brief.", tools=[TOOL])
    assert (marks(body), body["system"]) == ([], "Be brief.")


def test_a_paused_turn_is_marked_where_the_api_takes_a_mark() -> None:
    """A request may end with Claude's own words; its thinking, and what is unknown, take none."""
    blocks = '{"type":"text","text":"Hm."},{"type":"thinking","thinking":"","signature":"s"}'
    paused = f'{{"role":"assistant","content":[{blocks},{{"type":"hologram"}}]}}'.encode()
    assert marks(sent([ASKED, paused])) == ["messages.0.0 5m", "messages.1.0 5m"]
    silent = b'{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"}]}'
    assert marks(sent([ASKED, silent])) == ["messages.0.0 5m"]


def test_a_summary_request_is_marked_as_the_request_before_it() -> None:
    """It asks about what was sent before, so all of that is in the cache."""
    whole = frozen(system="Be brief.", tools=[TOOL])
    messages = [ASKED, REPLY, ASKED]
    asked = json.loads(summary_request(whole, messages, (), "5m").body)
    assert marks(asked) == marks(sent(messages, system="Be brief.", tools=[TOOL]))


def test_the_summary_that_a_conversation_begins_with_is_marked() -> None:
    """It is the end of what comes before Claude's last reply, and takes a mark."""
    summary = b'{"role":"assistant","content":[{"type":"compaction","content":"So far."}]}'
    assert marks(sent([summary, REPLY, ASKED])) == ["messages.0.0 5m", "messages.2.0 5m"]


def test_a_deferred_tool_is_not_marked() -> None:
    """The API refuses a mark on a tool that is in no prompt yet."""
    body = sent([ASKED], tools=[TOOL, {**TOOL, "defer_loading": True}])
    assert marks(body) == ["tools.0 5m", "messages.0.0 5m"]


def test_a_mark_changes_no_other_byte() -> None:
    """Number literals, escapes and key order go back to Claude as they came from it."""
    block = '{"type":"tool_result","content":"\\u00e9\\ud83d 1.50","tool_use_id":"t","n":1e5}'
    message = f'{{"role":"user","content":[{block}]}}'.encode()
    request = reply_request(frozen(), [message], (), "5m")
    mark = b',"cache_control":{"type":"ephemeral"}'
    assert (request.body.count(mark), message in request.body.replace(mark, b"")) == (1, True)


@pytest.mark.parametrize(
    ("policy", "long_cache", "lifetime"),
    [
        ("auto", False, "5m"),
        ("auto", True, "1h"),
        ("5m", True, "5m"),
        ("1h", False, "1h"),
        ("off", True, None),
    ],
)
def test_a_lifetime_is_the_policys(
    policy: CachePolicy, lifetime: Lifetime | None, *, long_cache: bool
) -> None:
    """`auto` pays for an hour only where steps lie far apart; a run of before 0.4 is not cached."""
    assert lifetime_of(policy, long_cache=long_cache) == lifetime
    assert Opening.model_fields["cache"].default == "off"


def test_an_agent_whose_tool_asks_a_person_is_cached_for_an_hour() -> None:
    """People take longer than five minutes, and the wait is not known before it."""

    def cached(ask: Any, **options: Any) -> CachePolicy:
        @tool(ask=ask)
        def act() -> None:
            """Act."""

        return Agent("a", model="claude-sonnet-5-5", tools=[act], **options).cached

    assert (cached("never"), cached("always"), cached(bool)) == ("auto", "1h", "1h")
    assert (cached("always", cache="5m"), cached("always", cache="off")) == ("5m", "off")


# ---- whatever the conversation and the author's own marks

LIFETIMES = st.sampled_from([None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])
BLOCKS: list[Body] = [
    {"type": "text", "text": "Words."},
    {"type": "text", "text": "1.50 \\u00e9 ]}, {"},
    {"type": "thinking", "thinking": "", "signature": "s"},
    {"type": "redacted_thinking", "data": "eA=="},
    {"type": "tool_use", "id": "t", "name": "look", "input": {"b": 1, "a": [{}]}},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    {"type": "hologram", "data": {"text": "unknown"}},
]
CONTENTS = st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Messages as a run sends them: people and results between Claude's replies, or nothing."""
    messages: list[tuple[str, list[Any]]] = [("user", [{"type": "text", "text": "Go."}])]
    for content, told in draw(st.lists(st.tuples(CONTENTS, st.booleans()), max_size=6)):
        messages.append(("assistant", content))
        result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
        messages += [("user", [result])] if told else []
    return [json_text.dumps({"role": r, "content": c}).encode() for r, c in messages]


@st.composite
def heads(draw: st.DrawFn) -> Body:
    """Tools and system prompt with marks of the author's own that the API takes."""
    head: Body = {
        "tools": [dict(TOOL) for _ in range(draw(st.integers(0, 3)))],
        "system": [{"type": "text", "text": "Be brief."} for _ in range(draw(st.integers(0, 3)))],
    }
    places: list[Body] = [*head["tools"], *head["system"], head]
    for place in places:
        if mark := draw(LIFETIMES):
            place["cache_control"] = mark
    if not head["system"]:
        head["system"] = "Be brief."
    return head


@settings(max_examples=300, deadline=None)
@given(conversations(), heads(), st.sampled_from(["5m", "1h"]))
def test_the_api_takes_every_request_and_finds_what_it_wrote(
    messages: list[bytes], head: Body, lifetime: Lifetime
) -> None:
    """Never a fifth mark, an hour after five minutes, or a mark where none may be.

    Without marks it is what was to be sent; and where the author left room, the next request is
    marked where this one ended.
    """
    asked = [*map(json.loads, messages)]
    plain = {**json.loads(frozen(**head)), "stream": True, "messages": asked}
    if list(mark_violations(plain)):
        return  # the author's own marks are refused, with ours or without
    body, free = sent(messages, lifetime, **head), MAX_MARKS - len(own_marks(plain))
    assert not list(mark_violations(body))
    assert all(own in marks(body) for own in marks(plain))
    assert [(p.digest, p.tokens) for p in prefixes("", body)] == [
        (p.digest, p.tokens) for p in prefixes("", plain)
    ]
    if free > 1 and "cache_control" not in head:
        later = sent([*messages, REPLY, ASKED], lifetime, **head)
        written = [p.digest for p in prefixes("", body) if p.mark][-1]
        assert written in [p.digest for p in prefixes("", later) if p.mark]


def own_marks(body: Body) -> list[str]:
    """The author's marks, the one of the whole body included."""
    return [*marks(body), *(["body"] if "cache_control" in body else [])]
