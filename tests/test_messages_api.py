"""The scripted Messages API: replies, ids, streams, journal, and the server as a process."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from pydantic import ValidationError

from onward.testing import wait_until
from onward.testing.messages_api import (
    Asked,
    Fault,
    Script,
    ScriptedAPI,
    Step,
    read_journal,
    scripts_from,
)

THINK_AND_CALL = [
    {"type": "thinking", "thinking": "Two orders, é.", "signature": "c2lnbmF0dXJl"},
    {"type": "text", "text": "I refund both orders now, one after the other."},
    {"type": "tool_use", "name": "refund", "input": {"order": "o-1", "amount": 1.0}},
    {"type": "tool_use", "name": "refund", "input": {"order": "o-2", "amount": 12}},
]
SCRIPTS: dict[str, Any] = {
    "refund": [
        {"content": THINK_AND_CALL},
        {"content": [{"type": "text", "text": "Both are refunded."}]},
    ],
    "slow": [{"content": [{"type": "text", "text": "Late."}], "delay_s": 30}],
    "long": [{"content": [*THINK_AND_CALL], "needs_tokens": 500}],
}
HEADERS = {"authorization": "Bearer any", "anthropic-version": "2026-10-21"}


def asking(script: str, **more: Any) -> dict[str, Any]:
    first = {"role": "user", "content": f"[script:{script}] Please."}
    return {"model": "claude-test", "max_tokens": 1000, "messages": [first], **more}


async def post(api: ScriptedAPI, body: dict[str, Any], **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{api.url}/v1/messages", json=body, headers=HEADERS | headers)


async def streamed(api: ScriptedAPI, body: dict[str, Any]) -> dict[str, Any]:
    client = AsyncAnthropic(base_url=api.url, api_key="any", max_retries=0)
    async with client.messages.stream(**body) as stream:
        message = await stream.get_final_message()
    return message.to_dict(mode="json", warnings=False)


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncGenerator[ScriptedAPI]:
    async with ScriptedAPI(scripts_from(SCRIPTS), tmp_path / "journal.jsonl") as running:
        yield running


async def test_a_conversation_goes_step_by_step_as_the_request_counts(api: ScriptedAPI) -> None:
    """The step is the number of assistant turns, so a resumed client gets its next reply."""
    body = asking("refund")
    first = await streamed(api, body)
    calls = [block["id"] for block in first["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call, "content": "ok"} for call in calls]
    body["messages"] += [
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": results},
    ]
    second = await streamed(api, body)
    assert first["stop_reason"] == "tool_use"
    assert second["stop_reason"] == "end_turn"
    assert [entry.step for entry in api.journal] == [0, 1]
    assert api.journal[1].results_in_order is True
    assert api.journal.violations() == []


async def test_streamed_and_whole_replies_say_the_same(api: ScriptedAPI) -> None:
    """The SDK's own accumulator rebuilds from our events what the body without streaming says."""
    body = asking("refund", metadata={"user_id": "u"})
    whole = (await post(api, body)).json()["content"]
    parts = (await streamed(api, body))["content"]
    for block in [*whole, *parts]:
        block.pop("id", None)  # ids differ: `stream` is part of the body
    assert parts == whole == THINK_AND_CALL


async def test_events_come_in_the_order_of_recorded_streams(api: ScriptedAPI) -> None:
    """A client that relies on the API's event order can be tested here."""
    text = (await post(api, asking("refund", stream=True))).text
    names = [line.removeprefix("event: ") for line in text.splitlines() if "event: " in line]
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert text.count('"type":"signature_delta"') == 1
    assert text.count('"type":"input_json_delta"') > 4


async def test_a_repeat_gets_identical_bytes_also_from_another_server(api: ScriptedAPI) -> None:
    """Ids and content depend on script, step and body only: a crash test may repeat a request."""
    body = asking("refund", stream=True)
    answers = {(await post(api, body)).content for _ in range(2)}
    async with ScriptedAPI(scripts_from(SCRIPTS)) as other:
        answers.add((await post(other, body)).content)
        changed = (await post(other, {**body, "max_tokens": 2000})).content
    assert len(answers) == 1
    assert changed not in answers
    assert list(api.journal.identical_bodies("refund").values()) == [2]
    assert [entry.attempt for entry in api.journal] == [1, 2]


async def test_a_client_killed_while_waiting_is_still_counted(
    api: ScriptedAPI, tmp_path: Path
) -> None:
    """The journal file holds a request before its answer: requests are counted, not replies."""
    asked = asyncio.create_task(post(api, asking("slow")))
    journal = tmp_path / "journal.jsonl"
    await wait_until(lambda: read_journal(journal), 10)
    (open_entry,) = read_journal(journal)
    asked.cancel()
    await wait_until(lambda: read_journal(journal)[0].outcome, 10)
    assert open_entry.outcome == ""
    assert read_journal(journal)[0].outcome == "the client went away"


async def test_a_restarted_server_does_not_repeat_its_faults(tmp_path: Path) -> None:
    """Attempts are counted over the journal file, so chaos may restart this server too."""
    step = Step(content=[{"type": "text", "text": "Hi."}], faults=[Fault(status=529)])
    statuses: list[int] = []
    for _ in range(2):
        async with ScriptedAPI({"s": Script(steps=[step])}, tmp_path / "j.jsonl") as server:
            statuses.append((await post(server, asking("s"))).status_code)
    assert statuses == [529, 200]
    assert [entry.n for entry in read_journal(tmp_path / "j.jsonl")] == [1, 2]


async def test_the_key_never_reaches_the_journal(api: ScriptedAPI, tmp_path: Path) -> None:
    """A journal may be attached to a bug report."""
    await post(api, asking("refund"), **{"x-api-key": "sk-secret"})
    assert "sk-secret" not in (tmp_path / "journal.jsonl").read_text()
    assert len(api.journal[0].key_sha8) == 8


async def test_a_reply_longer_than_max_tokens_is_cut_as_claude_cuts(api: ScriptedAPI) -> None:
    """A redo with more tokens can be scripted: the same step answers by `max_tokens` alone."""
    cut = await streamed(api, asking("long", max_tokens=400))
    raw = (await post(api, asking("long", max_tokens=400, stream=True))).text
    pieces = [json.loads(line[6:]) for line in raw.splitlines() if '"partial_json"' in line]
    tail = "".join(p["delta"]["partial_json"] for p in pieces if p["index"] == 3)
    whole = await streamed(api, asking("long", max_tokens=500))
    assert cut["stop_reason"] == "max_tokens"
    assert whole["stop_reason"] == "tool_use"
    with pytest.raises(json.JSONDecodeError):
        json.loads(tail)


async def test_a_script_may_be_a_function_and_a_header_may_name_it() -> None:
    """Replies that depend on the conversation need no list."""

    def echo(asked: Asked) -> Step:
        return Step(content=[{"type": "text", "text": f"{asked.step}.{asked.attempt}"}])

    async with ScriptedAPI({"echo": echo}) as api:
        body = asking("other")
        reply = (await post(api, body, **{"x-onward-script": "echo"})).json()
    assert reply["content"] == [{"type": "text", "text": "0.1"}]


async def test_models_and_token_counts_are_served(api: ScriptedAPI) -> None:
    """A client may look a model up and count before it asks."""
    client = AsyncAnthropic(base_url=api.url, api_key="any", max_retries=0)
    model = await client.models.retrieve("claude-test")
    messages: Any = [{"role": "user", "content": "Hello there."}]
    count = await client.messages.count_tokens(model="claude-test", messages=messages)
    assert model.id == "claude-test"
    assert count.input_tokens > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 429, "cut": True},
        {"after_events": 3},
        {"statsu": 429},
    ],
)
def test_a_fault_that_means_nothing_is_refused_when_it_is_loaded(wrong: dict[str, Any]) -> None:
    """A typing mistake in a script fails at once, not as a test that tests nothing."""
    with pytest.raises(ValidationError):
        Fault.model_validate(wrong)


async def test_a_script_without_an_answer_says_so(api: ScriptedAPI) -> None:
    """A test that asks for too much learns which script and step, and what there is."""
    answer = (await post(api, asking("nowhere"))).json()
    assert answer["error"]["message"] == (
        "no script 'nowhere'; there are: 'refund', 'slow', 'long'"
    )


async def test_as_a_process_it_serves_until_sigterm(tmp_path: Path) -> None:
    """`python -m onward.testing.messages_api` says where it is, and leaves nothing behind."""
    scripts, journal = tmp_path / "scripts.json", tmp_path / "journal.jsonl"
    scripts.write_text(json.dumps(SCRIPTS))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "onward.testing.messages_api"),
        *("--scripts", str(scripts), "--journal", str(journal), "--accept-key", "right"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout
        async with asyncio.timeout(20):
            url = json.loads(await process.stdout.readline())["url"]
        client: Any = AsyncAnthropic(base_url=url, api_key="right", max_retries=0)
        body = asking("refund")
        async with client.messages.stream(**body) as stream:
            assert (await stream.get_final_message()).stop_reason == "tool_use"
        hanging = asyncio.create_task(client.messages.create(**asking("slow")))
        await wait_until(lambda: len(read_journal(journal)) == 2, 10)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            assert await process.wait() == 0
        hanging.cancel()
    finally:
        if process.returncode is None:
            process.kill()
    assert [entry.complete for entry in read_journal(journal)] == [True, False]
