"""Recorded traffic is replayed as it was; our own messages of every kind survive the same way."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from message_kinds import KINDS, USAGE
from recorded import FILES

from onward.testing.messages_api import Script, ScriptedAPI, Step
from onward.testing.messages_api.checks import check
from onward.testing.messages_api.memory import Memory
from onward.testing.messages_api.stream import decode, encode, events, fold, split

HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21"}


def asking(script: str, **more: Any) -> dict[str, Any]:
    first = {"role": "user", "content": f"[script:{script}]"}
    return {"model": "claude-test", "max_tokens": 1000, "messages": [first], **more}


async def post(api: ScriptedAPI, body: dict[str, Any]) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{api.url}/v1/messages", json=body, headers=HEADERS)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api() -> AsyncGenerator[ScriptedAPI]:
    fields = {"stop_details": None, "container": {"id": "c"}}
    scripts = {
        kind: Script(steps=[Step(content=content, usage=USAGE, fields=fields, chunk_chars=3)])
        for kind, content in KINDS.items()
    }
    for number, file in enumerate(FILES):
        scripts[f"file-{number}"] = Script(steps=[Step(recording=str(file))])
    async with ScriptedAPI(scripts) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_block_arrives_as_scripted_streamed_or_not(
    api: ScriptedAPI, kind: str
) -> None:
    """No block type, field, number or null is lost, so a client's losses are its own."""
    whole = (await post(api, asking(kind))).json()
    streamed = fold(decode((await post(api, asking(kind, stream=True))).text))
    assert whole["content"] == KINDS[kind]
    assert streamed["content"] == KINDS[kind]
    assert whole["usage"] == streamed["usage"] == USAGE
    assert whole["container"] == streamed["container"] == {"id": "c"}
    assert whole["stop_reason"] == streamed["stop_reason"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_sdk_reads_our_stream(api: ScriptedAPI, kind: str) -> None:
    """The events parse with the real client, unknown blocks included."""
    client: Any = AsyncAnthropic(base_url=api.url, api_key="any", max_retries=0)
    stream = await client.messages.create(**asking(kind, stream=True))
    seen = [event.type async for event in stream]
    assert seen[0] == "message_start"
    assert seen[-1] == "message_stop"


def test_recorded_text_is_split_without_losing_a_byte() -> None:
    """Faults are counted in events of a recording, whose bytes are not ours to change."""
    text = 'event: ping\ndata: {"type":"ping"}\n\n: a comment\n\ndata: {"type":"x"}'
    assert b"".join(split(text)).decode() == text
    assert len(split(text)) == 3


async def test_a_recorded_stream_that_nobody_can_fold_is_still_replayed() -> None:
    """A delta of a later time is sent as it is, and the turn after it is not held against it."""
    holograms: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta"}},
        {"type": "message_stop"},
    ]
    sse = b"".join(map(encode, holograms)).decode()
    steps = [Step(content=KINDS["text"]), Step(recording={"sse": sse}), Step(content=[])]
    async with ScriptedAPI({"later": Script(steps=steps)}) as api:
        body = asking("later", stream=True)
        said = KINDS["text"]
        for step in range(3):
            reply = await post(api, body)
            assert step != 1 or reply.text == sse
            body["messages"] += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": "Go on."},
            ]
            said = [{"type": "text", "text": "What I made of it."}]
        assert api.journal.violations() == []


@pytest.mark.skipif(not FILES, reason="the recorded traffic is not part of this checkout")
@pytest.mark.parametrize("number", range(len(FILES)))
async def test_a_recorded_request_is_accepted(number: int) -> None:
    """The checks are no stricter than the API: it took these, but for what was legal then."""
    recorded: dict[str, Any] = json.loads(FILES[number].read_text())
    body: dict[str, Any] | None = recorded["request"]["body"]
    if body is None or "max_tokens" not in body or recorded["response"]["status"] != 200:
        pytest.skip("no request to /v1/messages that the API took")
    for name in ("temperature", "top_p", "top_k"):
        body.pop(name, None)
    if body["messages"][-1]["role"] == "assistant":
        pytest.skip("a prefilled reply")
    assert check(body, Memory().conversation("any")) == []


@pytest.mark.skipif(not FILES, reason="the recorded traffic is not part of this checkout")
@pytest.mark.parametrize("number", range(len(FILES)))
async def test_a_recording_is_replayed_as_it_was(api: ScriptedAPI, number: int) -> None:
    """Streams byte for byte; bodies equal as JSON, key order included; statuses too."""
    recorded: dict[str, Any] = json.loads(FILES[number].read_text())["response"]
    if "sse" in recorded:
        reply = await post(api, asking(f"file-{number}", stream=True))
        assert reply.text == recorded["sse"]
    else:
        reply = await post(api, asking(f"file-{number}"))
        assert json.dumps(reply.json()) == json.dumps(recorded["body"])
    assert reply.status_code == recorded["status"]


@pytest.mark.skipif(not FILES, reason="the recorded traffic is not part of this checkout")
@pytest.mark.parametrize("number", range(len(FILES)))
async def test_a_recorded_message_survives_our_stream(number: int) -> None:
    """What Claude really sent, put through our chunker and folded again, is the same message."""
    recorded: dict[str, Any] = json.loads(FILES[number].read_text())["response"]
    message = fold(decode(recorded["sse"])) if "sse" in recorded else recorded["body"]
    if message.get("type") != "message":
        pytest.skip("not a message")
    text = b"".join(map(encode, events(message))).decode()
    assert fold(decode(text)) == message
