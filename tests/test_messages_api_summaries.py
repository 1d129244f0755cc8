"""The scripted server sums up, edits and refuses for size as the real API does."""

import base64
import struct
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from onward.testing.messages_api import Script, ScriptedAPI, Step
from onward.testing.messages_api.stream import decode, fold

HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21"}
ON_DEMAND = {"anthropic-beta": "compact-2026-09-04"}
EDITING = {"anthropic-beta": "context-management-2025-06-27"}
SUMMARIZE = {"compaction": {"type": "summarize"}}
THINKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
]
SAYS = [{"type": "text", "text": "Done."}]
SCRIPT = Script(steps=[Step(content=THINKS), Step(content=SAYS)])
FIRST = {"role": "user", "content": "[script:s] Go."}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}


@pytest_asyncio.fixture
async def api() -> AsyncGenerator[ScriptedAPI]:
    async with ScriptedAPI({"s": SCRIPT}, window=50_000, max_body_bytes=400_000) as running:
        yield running


async def post(api: ScriptedAPI, messages: list[Any], **more: Any) -> httpx2.Response:
    headers = HEADERS | more.pop("headers", ON_DEMAND)
    body = {"model": "claude-test", "max_tokens": 1000, "messages": messages, **more}
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{api.url}/v1/messages", json=body, headers=headers)


async def begun(api: ScriptedAPI) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have Claude asked once; return its reply and a summary of the question, as messages."""
    replied = (await post(api, [FIRST])).json()["content"]
    summed_up = (await post(api, [FIRST], **SUMMARIZE)).json()["content"]
    return as_reply(replied), as_reply(summed_up)


def as_reply(content: list[Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


async def test_a_summary_stands_in_for_what_it_sums_up(api: ScriptedAPI) -> None:
    """A reply to just that may stay, thinking and all, and the script goes on where it was."""
    reply, summary = await begun(api)
    answered = await post(api, [summary, reply, RESULT])
    assert answered.json()["content"] == SAYS
    assert api.journal.violations() == []
    assert [entry.step for entry in api.journal] == [0, 0, 1]


async def test_a_summary_is_billed_in_its_iteration_alone_and_streams_whole(
    api: ScriptedAPI,
) -> None:
    """Top-level counters are zero and no delta tells the block, as with the real API."""
    streamed = (await post(api, [FIRST], stream=True, **SUMMARIZE)).text
    message = fold(decode(streamed))
    assert (message["stop_reason"], message["usage"]["input_tokens"]) == ("compaction", 0)
    assert message["usage"]["iterations"][0]["input_tokens"] > 0
    assert "content_block_delta" not in streamed
    assert message["content"] == (await post(api, [FIRST], **SUMMARIZE)).json()["content"]


async def test_a_kept_reply_must_follow_what_it_answered(api: ScriptedAPI) -> None:
    """Thinking behind a summary of something else is refused."""
    reply, _ = await begun(api)
    other = {"role": "user", "content": "[script:s] Other."}
    summary = as_reply((await post(api, [other], **SUMMARIZE)).json()["content"])
    assert (await post(api, [summary, reply, RESULT])).status_code == 400
    assert "prefix" in api.journal[-1].violations


@pytest.mark.parametrize(
    ("shape", "more", "name"),
    [
        ("first", {"headers": {}}, "beta"),
        ("asked", {"headers": {}}, "beta"),
        ("behind", {}, "compaction_block_misplaced"),
        ("twice", {}, "compaction_block_ambiguous"),
        ("changed", {}, "compaction_signature_invalid"),
        ("asked", {"stop_sequences": ["x"]}, "compaction"),
        ("asked", {"tool_choice": {"type": "any"}}, "compaction"),
        ("asked", {"output_config": {"format": {"type": "json_schema"}}}, "compaction"),
    ],
)
async def test_a_misused_summary_is_refused(
    api: ScriptedAPI, shape: str, more: dict[str, Any], name: str
) -> None:
    """What the API refuses, a client under test must be refused here too."""
    reply, summary = await begun(api)
    changed = as_reply([{**summary["content"][0], "content": "Something else."}])
    messages = {
        "first": [summary, reply, RESULT],
        "asked": [FIRST],
        "behind": [FIRST, summary, reply, RESULT],
        "twice": [summary, summary, reply, RESULT],
        "changed": [changed, reply, RESULT],
    }[shape]
    asking = SUMMARIZE if shape == "asked" else {}
    assert (await post(api, messages, **asking, **more)).status_code == 400
    assert name in api.journal[-1].violations


async def test_a_summary_needs_every_call_answered(api: ScriptedAPI) -> None:
    """A conversation that ends in a call is none to sum up."""
    reply, _ = await begun(api)
    assert (await post(api, [FIRST, reply], **SUMMARIZE)).status_code == 400
    assert "unanswered_call" in api.journal[-1].violations


async def test_too_much_is_refused_by_tokens_and_by_bytes(api: ScriptedAPI) -> None:
    """A prompt beyond the window is a 400 with figures, a body beyond its size a 413."""
    long = await post(api, [{"role": "user", "content": f"[script:s] {'word ' * 50_000}"}])
    assert (long.status_code, "prompt is too long" in long.text) == (400, True)
    large = await post(api, [{"role": "user", "content": f"[script:s] {'x' * 400_000}"}])
    assert large.status_code == 413


def picture(pixels: int) -> dict[str, Any]:
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + struct.pack(">II", pixels, 10)
    data = base64.b64encode(head).decode()
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data},
    }


@pytest.mark.parametrize(
    ("count", "pixels", "status"),
    [(20, 2001, 200), (21, 2000, 200), (21, 2001, 400), (1, 8001, 400)],
)
async def test_many_images_must_be_small(
    api: ScriptedAPI, count: int, pixels: int, status: int
) -> None:
    """Twenty-one images make one of 2,001 pixels too large, though it was fine among twenty."""
    text = {"type": "text", "text": "[script:s]"}
    content = [text, *(picture(pixels) for _ in range(count))]
    assert (await post(api, [{"role": "user", "content": content}])).status_code == status


async def test_an_image_costs_tokens_by_its_size_not_its_bytes(api: ScriptedAPI) -> None:
    """Images reach the limit of bytes long before that of tokens, here as there."""
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 300_000}
    content = [{"type": "text", "text": "[script:s]"}, {"type": "image", "source": source}]
    answered = (await post(api, [{"role": "user", "content": content}])).json()
    assert 1_500 < answered["usage"]["input_tokens"] < 2_000


async def test_cleared_results_are_not_read_but_still_sent(api: ScriptedAPI) -> None:
    """Context editing lowers what is counted and says so; the client keeps sending everything."""
    calls: list[dict[str, Any]] = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "look", "input": {}} for n in "abcde"
    ]
    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": "word " * 9_000}
        for call in calls
    ]
    messages: list[Any] = [FIRST]
    for call, result in zip(calls, results, strict=True):
        messages += [as_reply([call]), {"role": "user", "content": [result]}]
    trigger = {"type": "input_tokens", "value": 20_000}
    edits = [{"type": "clear_tool_uses_20250919", "trigger": trigger}]
    api.scripts["s"] = Script(default=Step(content=SAYS))
    managed = {"context_management": {"edits": edits}, "headers": EDITING}
    edited = (await post(api, messages, **managed)).json()
    applied = edited["context_management"]["applied_edits"][0]
    assert applied["cleared_tool_uses"] == 2
    assert applied["cleared_input_tokens"] > 15_000
    assert "prompt is too long" in (await post(api, messages)).text
