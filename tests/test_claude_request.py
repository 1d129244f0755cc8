"""What is sent for a reply and for a summary, how full it is, and what it costs."""

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from onward import Agent, json_text, transcript
from onward.agents import ContextPolicy
from onward.claude_request import reply_request, summary_request
from onward.context_window import context_use, nearly_full, turn_tokens
from onward.errors import AppError
from onward.messages import Attempt, ContextUse
from onward.models.table import capacity
from onward.pricing import spend_of
from onward.stream import MessageFold
from onward.testing.messages_api.stream import decode
from onward.transcript import Conversation, Turn

BESIDE = Path(__file__).parents[2] / "shared" / "cassettes"
CASSETTES = Path(os.environ.get("ONWARD_CASSETTES", BESIDE))
COMPACTED = sorted(CASSETTES.glob("*/*compaction*.json"))
MODEL = "claude-sonnet-4-6"
USER, REPLY = b'{"role":"user","content":"Go."}', b'{"role":"assistant","content":"Gone."}'
SUMMARY = '{"content":[{"type":"compaction","content":"So far.","signature":"s"}]}'


def frozen(**more: Any) -> str:
    return json.dumps({"model": MODEL, "max_tokens": 100, "system": "S", **more})


def test_a_summary_is_asked_for_with_all_that_it_reads_and_nothing_that_the_api_refuses() -> None:
    """System prompt, tools and number literals stay; what shapes a reply goes, but only here."""
    whole = frozen(
        tools=[{"name": "look", "input_schema": {"maximum": 1.50}}],
        tool_choice={"type": "any"},
        stop_sequences=["x"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        output_config={"effort": "high", "format": {"type": "json_schema"}},
    ).replace("1.5}", "1.50}")
    request = summary_request(whole, [USER])
    sent = json.loads(request.body)
    assert sent.keys() == {
        *("model", "max_tokens", "system", "tools", "output_config", "compaction"),
        *("stream", "messages"),
    }
    assert sent["output_config"] == {"effort": "high"}
    assert sent["compaction"] == {"type": "summarize"}
    assert b'"maximum":1.50' in request.body
    assert (sent["max_tokens"], request.betas) == (8192, ("compact-2026-09-04",))


def test_a_longer_reply_leaves_as_much_room_for_a_summary() -> None:
    """An agent's own `max_tokens` is lowered for nothing."""
    whole = json.dumps({"model": MODEL, "max_tokens": 50_000})
    assert json.loads(summary_request(whole, [USER]).body)["max_tokens"] == 50_000


def test_a_request_may_be_changed_but_for_its_messages() -> None:
    """A shorter reply, or one in one piece, is asked for with else the very same bytes."""
    tool = json_text.raw('{"maximum":1.50}')
    whole = json_text.dumps({"model": MODEL, "max_tokens": 9, "tools": [tool]})
    request = reply_request(whole, [USER, REPLY, USER])
    changed = request.but(max_tokens=5, stream=False)
    expected = request.body.replace(b'"max_tokens":9', b'"max_tokens":5')
    assert changed.body == expected.replace(b'"stream":true', b'"stream":false')
    assert (changed.max_tokens, changed.stream) == (5, False)
    assert changed.but(max_tokens=9, stream=True) == request


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        (None, "container_1"),
        ({"skills": [{"skill_id": "pdf"}]}, {"skills": [{"skill_id": "pdf"}], "id": "container_1"}),
        ("container_of_mine", "container_of_mine"),
        ({"id": "container_of_mine"}, {"id": "container_of_mine"}),
    ],
)
def test_claudes_code_goes_on_in_its_container(own: Any, sent: Any) -> None:
    """The API refuses the results that such code waits for without it; an agent's own stays."""
    request = reply_request(frozen(**{"container": own} if own else {}), [USER])
    assert json.loads(request.in_container("container_1").body)["container"] == sent


def test_a_summary_of_the_apis_own_making_is_named_wherever_it_stands() -> None:
    """It refuses the block otherwise, also in a request that no longer lets it make one."""
    (summed_up,) = transcript.assistant_message(SUMMARY)
    request = reply_request(frozen(), [USER, summed_up.encode(), USER])
    assert request.betas == ("compact-2026-01-12",)


def test_a_request_names_the_features_that_it_uses_and_no_others() -> None:
    """A gateway that knows no beta feature is not bothered until one is needed."""
    assert reply_request(frozen(), [USER]).betas == ()
    assert reply_request(frozen(), [REPLY, USER]).betas == ("compact-2026-09-04",)
    edited = frozen(context_management={"edits": [{"type": "compact_20260112"}]})
    assert reply_request(edited, [USER]).betas == (
        *("context-management-2025-06-27", "compact-2026-01-12"),
    )


def test_a_summary_replaces_all_but_the_last_reply() -> None:
    """The digest goes on over everything that was ever sent: nothing of the chain is rewritten."""
    start = transcript.beginning(frozen())
    said = [("1", Turn(content='"a"'), reply("b")), ("2", Turn(content='"c"'), reply("d"))]
    steps = [*said, ("3.c1", Turn(content=""), SUMMARY), ("3", Turn(content='"e"'), reply("f"))]
    talk = Conversation(start, start)
    for step, turn, message in steps:
        talk = talk.after(step, turn, message)
    roles = [json.loads(sent)["role"] for sent in talk.messages]
    assert roles == ["assistant", "assistant", "user", "assistant"]
    assert [b"compaction" in sent for sent in talk.messages] == [True, False, False, False]
    assert talk.size_bytes == sum(map(len, talk.messages))
    head = start
    for step, turn, message in steps:
        head = transcript.advance(head, step, turn, message)
    assert talk.head == head


def reply(text: str) -> str:
    return json.dumps({"content": [{"type": "text", "text": text}]})


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ([USER, REPLY, USER, REPLY], 1),
        ([USER, REPLY, REPLY], 2),
        ([USER], 0),
        ([REPLY, REPLY], 2),
    ],
)
def test_what_is_summed_up_is_what_claude_was_asked_last(sent: list[bytes], kept: int) -> None:
    """Only a reply that follows just that keeps its thinking; a paused turn is kept whole."""
    summed_up, stays = transcript.parted(sent)
    assert (summed_up + stays, len(stays)) == (sent, kept)


@pytest.mark.parametrize(
    ("tokens", "turn_bytes", "full"),
    [(700_000, 100, False), (801_000, 100, True), (700_000, 310_000, True)],
)
def test_a_window_is_nearly_full_before_it_is_full(
    tokens: int, turn_bytes: int, *, full: bool
) -> None:
    """The turn that comes is counted too, and a reply and a summary must still have room."""
    last = ContextUse(tokens=tokens, window=1_000_000)
    assert bool(nearly_full(last, "x" * turn_bytes, 1000, 16_000)) is full


def test_an_unknown_window_is_never_guessed() -> None:
    """Of a model that is not known only bytes count; the API itself says when it is too long."""
    last = ContextUse(tokens=10**9, window=None)
    assert not nearly_full(last, "", 1000, 16_000)
    assert "24,000,001 bytes" in nearly_full(last, "", 24_000_001, 16_000)


def test_an_image_is_few_tokens_whatever_its_bytes() -> None:
    """Counted by its bytes, one screenshot would look like a window's worth of text."""
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 2_000_000}
    result = {"type": "tool_result", "content": [{"type": "image", "source": source}]}
    assert 5_000 <= turn_tokens(json.dumps([result])) < 6_000


def test_how_full_it_is_is_told_by_the_last_reply_alone() -> None:
    """Not by what was summed up before it; after a lone summary, by what that leaves."""
    summed_up = {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500}
    own = {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000}
    both = json.dumps({"usage": {"input_tokens": 1, "iterations": [summed_up, own]}})
    alone = json.dumps({"usage": {"input_tokens": 0, "iterations": [summed_up]}})
    plain = {"input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": None}
    cached = json.dumps({"usage": {**plain, "output_tokens": 3}})
    used = [context_use(message, MODEL, 9).tokens for message in (both, alone, cached)]
    assert used == [24_000, 3_500, 78]
    assert context_use(cached, "some-model", 9) == ContextUse(tokens=78, body_bytes=9)


def test_what_was_read_in_many_rounds_fills_the_window_once() -> None:
    """A search is one request in which Claude reads the prompt again and again: all is counted."""
    usage = {"input_tokens": 960_000, "output_tokens": 5_000}
    searched = json.dumps({"content": [{"type": "server_tool_use"}], "usage": usage})
    said = json.dumps({"content": [{"type": "text"}], "usage": usage})
    assert context_use(searched, MODEL, 300_000).tokens == (300_000 + len(searched)) // 3
    assert context_use(said, MODEL, 300_000).tokens == 965_000


def test_every_iteration_is_paid_at_its_own_model() -> None:
    """A summary's and an adviser's tokens are in no top-level field, and cost all the same."""
    usage = {
        "input_tokens": 1_000,
        "output_tokens": 100,
        "server_tool_use": {"web_search_requests": 2},
        "iterations": [
            {"type": "compaction", "input_tokens": 100_000, "output_tokens": 1_000},
            {"type": "advisor_message", "model": "claude-opus-4-8", "input_tokens": 10_000,
             "output_tokens": 1_000},
            {"type": "message", "input_tokens": 1_000, "output_tokens": 100},
        ],
    }  # fmt: skip
    spend = spend_of([Attempt(model=MODEL, usage=usage, whole=True)])
    assert (spend.input_tokens, spend.output_tokens) == (111_000, 2_100)
    # 101,000 at $3 and 1,100 at $15; 10,000 at $5 and 1,000 at $25; two searches at a cent.
    assert spend.cost_usd == Decimal("0.3195") + Decimal("0.075") + Decimal("0.02")


def test_one_iteration_without_a_price_leaves_the_whole_without() -> None:
    """Part of a price would look like all of it."""
    entry = {"input_tokens": 10, "output_tokens": 1}
    unknown = {**entry, "type": "advisor_message", "model": "claude-of-tomorrow"}
    usage = {"iterations": [{**entry, "type": "message"}, unknown]}
    spend = spend_of([Attempt(model=MODEL, usage=usage, whole=True)])
    assert (spend.unpriced_requests, spend.input_tokens) == (1, 20)
    assert spend.cost_usd == 0


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "So far.", "encrypted_content": "eA=="},
        {"content": "So far."},
        {"content": None, "encrypted_content": None},
    ],
)
def test_a_streamed_compaction_is_kept_as_it_was_told(delta: dict[str, Any]) -> None:
    """Its opaque part too; a null, which says that there is no summary, must go back as null."""
    start = {"type": "compaction", "content": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", **delta}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "compaction"}, "usage": {}},
        {"type": "message_stop"},
    ]
    fold = MessageFold()
    for event in events:
        fold.add(event)
    assert fold.message["content"] == [{"type": "compaction", **delta}]


@pytest.mark.skipif(not COMPACTED, reason="the recorded traffic is not part of this checkout")
@pytest.mark.parametrize("number", range(len(COMPACTED)))
def test_a_recorded_compaction_is_kept_and_counted(number: int) -> None:
    """Its block goes back as it came, its tokens are paid, and the window is as small as told."""
    message = recorded(number)
    block = message["content"][0]
    assert block["type"] == "compaction"
    text = json.dumps(message)
    sent = json.loads(next(transcript.assistant_message(text)))
    assert sent["content"][0] == block
    entries = message["usage"]["iterations"]
    spend = spend_of([Attempt(model=message["model"], usage=message["usage"], whole=True)])
    assert spend.tokens == sum(map(_tokens, entries))
    assert spend.cost_usd > 0
    assert context_use(text, message["model"], 1).tokens == _tokens(entries[-1])


def recorded(number: int) -> dict[str, Any]:
    """A recorded message with a compaction in it, folded by our own reader where it streamed."""
    response = json.loads(COMPACTED[number].read_text())["response"]
    if "sse" not in response:
        return dict(response["body"])
    fold = MessageFold()
    for event in decode(response["sse"]):
        fold.add(event)
    return fold.message


def _tokens(usage: dict[str, Any]) -> int:
    return sum(usage.get(name) or 0 for name in usage if name.endswith("_tokens"))


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-sonnet-5-5", 1_000_000),
        ("claude-haiku-4-5-20251001", 200_000),
        ("claude-of-tomorrow", None),
        ("my-claude-sonnet-5-5", None),
    ],
)
def test_a_window_is_known_or_it_is_not(model: str, window: int | None) -> None:
    """A dated id is its model's; anything else that is not listed is unknown."""
    found = capacity(model)
    assert (found.context_window if found else None) == window


@pytest.mark.parametrize(
    ("model", "context", "compacts"),
    [
        ("claude-sonnet-5-5", "compact", True),
        ("claude-sonnet-5-5", "clear", True),
        ("claude-sonnet-5-5", "stop", False),
        ("claude-haiku-4-5", "compact", False),
        ("claude-of-tomorrow", "compact", True),
    ],
)
def test_a_summary_is_asked_only_of_models_that_may_make_one(
    model: str, context: ContextPolicy, *, compacts: bool
) -> None:
    """A model that is known not to would refuse at every step; an unknown one may be asked."""
    assert Agent("a", model="m", context=context).compacts(model) is compacts


def test_an_agent_cannot_reply_at_greater_length_than_its_model() -> None:
    """Refused at the beginning of a run, where the model may be another one; not by Claude."""
    agent = Agent("a", model="claude-sonnet-5-5", max_tokens=100_000)
    assert json.loads(agent.definition())["max_tokens"] == 100_000
    with pytest.raises(AppError, match=r"replies with 64,000 at most"):
        agent.definition("claude-haiku-4-5")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context": "shrink"}, "use one of 'compact', 'clear', 'stop'"),
        ({"extra_body": {"compaction": {"type": "summarize"}}}, "context='compact'"),
        (
            {"context_management": {"edits": [{"type": "compact_20260112"}]}},
            "use context='stop' with it",
        ),
    ],
)
def test_an_agent_has_one_way_to_make_room(options: dict[str, Any], said: str) -> None:
    """What the API would refuse at the second request is refused where the agent is made."""
    with pytest.raises(AppError, match=said):
        Agent("a", model="m", **options)


def test_what_the_api_clears_may_be_set() -> None:
    """Own edits take the place of the usual one."""
    edits = {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"value": 9}}]}
    agent = Agent("a", model="m", context="clear", context_management=edits)
    assert json.loads(agent.definition())["context_management"] == edits
