"""What people found broken in conversations: each becomes one well-formed next request."""

import asyncio
import base64
import json
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, says, uses

from onward import tool
from onward.messages import RunResult
from onward.testing.messages_api import Step

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(64)).decode()


@tool(effect="read")
async def quick() -> str:
    """Answer fast."""
    await asyncio.sleep(0.05)
    return "quick"


@tool(effect="read")
async def slow() -> list[dict[str, Any]]:
    """Answer late, with text and an image."""
    await asyncio.sleep(1)
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    return [{"type": "text", "text": "a picture"}, {"type": "image", "source": source}]


@tool(effect="read")
async def broken() -> str:
    """Fail."""
    raise LookupError("no such thing")


def results_in(run: Run, request: int = -1) -> list[dict[str, Any]]:
    """Blocks of the last user message of a request."""
    content: list[dict[str, Any]] = json.loads(run.requests[request].body)["messages"][-1][
        "content"
    ]
    return content


@pytest.mark.field("A05")
@pytest.mark.replay
async def test_results_come_in_one_message_in_call_order(bench: Bench) -> None:
    """Whatever order calls finish in: one user message, results in the order of the calls."""
    step = uses(("slow", {}), ("quick", {}), ("broken", {}))
    run = await bench.run(app_of(quick, slow, broken), step, says())
    asked = [block["id"] for block in json.loads(run.requests[-1].body)["messages"][1]["content"]]
    blocks = results_in(run)
    assert [block["tool_use_id"] for block in blocks] == asked
    assert [kind["type"] for kind in blocks[0]["content"]] == ["text", "image"]
    assert blocks[1]["content"] == "quick"
    assert (blocks[2]["is_error"], "LookupError" in blocks[2]["content"]) == (True, True)
    await run.replay()


@pytest.mark.field("A06")
@pytest.mark.parametrize("blank", ["", "  \n"])
async def test_blank_text_is_not_sent_back(bench: Bench, blank: str) -> None:
    """Claude's own blank text block is left out of the next request; the call beside it stays."""
    step = Step(
        content=[
            {"type": "text", "text": blank},
            {"type": "tool_use", "name": "quick", "input": {}},
        ]
    )
    run = await bench.run(app_of(quick), step, says())
    sent = json.loads(run.requests[-1].body)["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["tool_use"]
    assert run.result is not None
    assert run.result.outcome == "completed"


@tool
async def returns_none() -> None:
    """Touch something."""


@tool
async def returns_blank() -> str:
    """Say nothing."""
    return ""


@tool(effect="read")
async def raises_blank() -> None:
    """Fail without a word."""
    raise RuntimeError


@pytest.mark.field("A07")
async def test_a_tool_that_says_nothing_gets_a_result_all_the_same(bench: Bench) -> None:
    """None, "" and an exception without message each give a result that is not empty."""
    step = uses(("returns_none", {}), ("returns_blank", {}), ("raises_blank", {}))
    run = await bench.run(app_of(returns_none, returns_blank, raises_blank), step, says())
    blocks = results_in(run)
    assert all(block["content"].strip() for block in blocks)
    assert [block.get("is_error", False) for block in blocks] == [False, False, True]
    assert "RuntimeError" in blocks[2]["content"]


@pytest.mark.field("A11")
async def test_only_what_the_api_accepts_is_sent_back(bench: Bench) -> None:
    """Two turns of text and calls through the real client: the strict server refuses nothing."""
    step = Step(
        content=[
            {"type": "thinking", "thinking": "", "signature": "c2ln"},
            {"type": "text", "text": "Looking.", "citations": None},
            {"type": "tool_use", "name": "quick", "input": {}, "caller": {"type": "direct"}},
        ]
    )
    run = await bench.run(app_of(quick), step, step, says())
    assert run.result is not None
    assert (run.result.outcome, run.result.steps) == ("completed", 3)


CUT = '{"path": "a.txt", "content": "' + "x" * 400 + '"}'


@pytest.mark.field("A13")
@pytest.mark.parametrize("variant", ["one call", "second of two"])
async def test_a_call_cut_at_max_tokens_never_runs(bench: Bench, variant: str) -> None:
    """A reply that stopped for its length runs no tool of it, and the outcome names the cause.

    It is asked for three times more, each time with twice the room.
    """
    ran: list[str] = []

    @tool
    async def write_file(path: str, content: str = "") -> str:
        """Write a file."""
        ran.append(path + content)
        return "written"

    calls = [("write_file", {"path": "b.txt"}), ("write_file", json.loads(CUT))]
    step = uses(*calls[1 if variant == "one call" else 0 :], needs_tokens=50_000)
    run = await bench.run(app_of(write_file, max_tokens=1000), step, says())
    assert run.result is not None
    room = [json.loads(request.body)["max_tokens"] for request in run.requests]
    assert (run.result.outcome, ran) == ("max_tokens", [])
    assert room == [1000, 2000, 4000, 8000]


@pytest.mark.field("A13")
async def test_a_call_without_its_end_event_never_runs(bench: Bench) -> None:
    """A tool call whose block never stopped is cut too, although its dict looks normal."""
    ran: list[bool] = []

    @tool
    async def act() -> str:
        """Act."""
        ran.append(True)
        return "done"

    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
         "model": "claude-sonnet-5-5", "content": [], "stop_reason": None,
         "usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use",
         "id": "toolu_1", "name": "act", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta",
         "partial_json": "{}"}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"},
         "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]  # fmt: skip
    sse = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    recording = {"status": 200, "headers": {"content-type": "text/event-stream"}, "sse": sse}
    run = await bench.run(app_of(act), Step(recording=recording))
    result: RunResult | None = run.result
    assert result is not None
    assert (result.outcome, ran) == ("max_tokens", [])


@tool(effect="read")
def dirty() -> str:
    """Return text that no encoding can carry."""
    return "ok \ud83d and \x00"


@pytest.mark.field("A21")
async def test_half_a_surrogate_pair_is_cleaned_once(bench: Bench) -> None:
    """Text is cleaned at the tool's boundary: history, record and request hold the same."""
    run = await bench.run(app_of(dirty), uses(("dirty", {})), says())
    told = results_in(run)[0]["content"]
    assert told.startswith("ok ")
    assert "\x00" not in told
    told.encode()
    history = (await run.history()).to_json()
    assert "ud83d" not in history
