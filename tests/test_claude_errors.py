"""What the API asks for when it refuses; what only looks like a reply; settings that mislead."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anthropic
import httpx2
import pytest
from agent_runs import MODEL, Bench, Run, app_of, connected, says, uses
from aiohttp import web
from one_request import asked, made_of
from temporalio.testing import ActivityEnvironment

from activities.pulse import Pulse
from activities.requests import StepRequests
from onward import claude, json_text, tool
from onward.claude_request import reply_request
from onward.errors import UsageError
from onward.ledger import Ledger
from onward.local_services.ports import free_ports
from onward.messages import Attempt, RunRef
from onward.stream import StreamBroken, Unanswerable
from onward.testing import wait_until
from onward.testing.messages_api import Asked, ErrorDetail, Fault, Step


@tool
async def act() -> str:
    """Act."""
    return "acted"


# ---- what it asks for


def too_many(most: int, *, prompt: int = 0) -> Any:
    """A script in which a reply may have so many tokens, or prompt and reply together."""

    def answer(asked: Asked) -> Step:
        wanted = asked.body["max_tokens"]
        if prompt + wanted <= most:
            return says()
        words = (
            f"input length and `max_tokens` exceed context limit: {prompt} + {wanted} > {most}, "
            "decrease input length or `max_tokens` and try again"
            if prompt
            else f"max_tokens: {wanted} > {most}, which is the maximum allowed number of output "
            f"tokens for {MODEL}"
        )
        error = ErrorDetail(type="invalid_request_error", message=words)
        return says(faults=[Fault(status=400, error=error)], faults_forever=True)

    return answer


@pytest.mark.parametrize(
    ("script", "sent"),
    [(too_many(20_000), [32_000, 20_000]), (too_many(50_000, prompt=45_000), [32_000, 5_000])],
    ids=["maximum", "window"],
)
async def test_a_reply_may_be_shorter_than_was_asked(
    bench: Bench, script: Any, sent: list[int]
) -> None:
    """The next attempt allows as much as the API does, known to it from the ledger."""
    bench.api.scripts["short"] = script
    run = await bench.run(app_of(max_tokens=32_000, context="stop"), prompt="[script:short]")
    assert run.result is not None
    requests = bench.api.journal.of("short")
    assert [json.loads(entry.body)["max_tokens"] for entry in requests] == sent
    assert (run.result.outcome, run.result.spend.lost_requests) == ("completed", 0)


async def test_no_room_for_a_reply_is_no_room(bench: Bench) -> None:
    """Under 1,024 tokens are left: the conversation is too long, and is not asked for a scrap."""
    bench.api.scripts["full"] = too_many(50_000, prompt=49_000)
    run = await bench.run(app_of(max_tokens=32_000, context="stop"), prompt="[script:full]")
    assert run.result is not None
    assert (run.result.outcome, len(bench.api.journal)) == ("context_exceeded", 1)


async def test_a_demand_that_was_met_is_not_met_again(bench: Bench) -> None:
    """A server that asks for what it has already got ends the run, and begins no loop."""
    words = "input length and `max_tokens` exceed context limit: 45000 + 32000 > 50000"
    error = ErrorDetail(type="invalid_request_error", message=words)
    step = says(faults=[Fault(status=400, error=error)], faults_forever=True)
    run = await bench.run(app_of(max_tokens=32_000, context="stop"), step)
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("context_exceeded", 2)


async def test_what_no_stream_can_tell_is_asked_for_in_one_piece(bench: Bench) -> None:
    """An unknown delta costs one reply, not the run; the rest of the request is the same."""
    strange = uses(("act", {}), faults=[Fault(unknown_delta=True)], faults_forever=True)
    run = await bench.run(app_of(act), strange, says())
    assert run.result is not None
    bodies = [json.loads(entry.body) for entry in run.requests]
    assert [body.pop("stream") for body in bodies] == [True, False, True]
    assert bodies[0] == bodies[1]
    assert (run.result.outcome, run.result.spend.lost_requests) == ("completed", 1)
    assert (await run.activities()).count("act") == 1


async def test_what_was_demanded_outlives_the_attempt_and_redis() -> None:
    """Where the ledger lost it, the dead attempt's last heartbeat still tells the next one."""
    told = Attempt(model=MODEL, max_tokens=5, unstreamable=True).model_dump(mode="json")
    env = ActivityEnvironment()
    env.info = replace(env.info, heartbeat_details=[{"dead": told}])
    async with connected("redis://127.0.0.1:1") as nowhere:
        run = RunRef(workflow_id="w", first_run_id="r", run_id="r", original_run_id="r")
        ledger = Ledger(nowhere, run, strict=True)
        requests = env.run(StepRequests, ledger, "1", "mine", Pulse(1.0))
    asked = reply_request(f'{{"model":"{MODEL}","max_tokens":9}}', [])
    assert requests.heeding(asked) == asked.but(max_tokens=5, stream=False)


async def test_a_gateway_that_cannot_stream_is_understood(bench: Bench) -> None:
    """It answers in one piece, and that is a reply as good as any."""
    run = await bench.run(app_of(act), uses(("act", {}), faults=[Fault(unstreamed=True)]), says())
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("completed", 2)
    assert run.result.spend.lost_requests == 0


async def test_silence_ends(bench: Bench) -> None:
    """A stream that stalls, and an answer that never begins, are given up and asked for again."""
    bench.silence_s = 2.0
    faults = [Fault(stall_s=60, after_events=3), Fault(hold_s=60)]
    run = await bench.run(app_of(), says(faults=faults))
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("completed", 3)
    assert run.result.spend.lost_requests == 2


async def test_waiting_for_somebody_to_pay_is_no_time_of_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first hour of it would be the last of every run that may go on for an hour."""
    monkeypatch.setattr("onward.claude_errors._FOR_A_PERSON_S", 3.0)
    error = ErrorDetail(type="billing_error", message="Your credit balance is too low.")
    step = says(faults=[Fault(status=402, error=error)])
    run = await bench.run(app_of(), step, max_wall_time=2.5)
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("completed", 2)


# ---- what only looks like a reply


@asynccontextmanager
async def answering(body: str, kind: str, status: int = 200) -> AsyncGenerator[str]:
    """Answer every request with the same body; gives the server's URL."""

    async def answer(_: web.Request) -> web.Response:
        headers = {"content-type": kind} if kind else {}
        return web.Response(status=status, body=body.encode(), headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


MESSAGE: dict[str, Any] = {
    "type": "message",
    "content": [],
    "stop_reason": "end_turn",
    "model": MODEL,
}
JSON, EVENTS = "application/json", "text/event-stream"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (json.dumps(MESSAGE)[:40], StreamBroken),
        ("", StreamBroken),
        (json.dumps({**MESSAGE, "stop_reason": None}), StreamBroken),
        (json.dumps({**MESSAGE, "content": "Hello."}), StreamBroken),
        (json.dumps({**MESSAGE, "content": ["Hello."]}), StreamBroken),
        ('{"type":"message"}', StreamBroken),
        ("[]", StreamBroken),
        ("[" * 2000 + "]" * 2000, Unanswerable),
        (json.dumps({**MESSAGE, "content": [{"type": "tool_use"}]}), Unanswerable),
        ('{"choices":[]}', claude.Refused),
        ('{"type":"error","error":{"type":"overloaded_error","message":"m"}}', claude.Refused),
        ('{"type":"error"}', claude.Refused),
    ],
    ids=str,
)
async def test_a_body_in_one_piece_is_looked_at_as_closely_as_a_stream(
    body: str, error: type[Exception]
) -> None:
    """Nothing that is not a whole reply is taken for one."""
    async with answering(body, JSON) as url:
        with pytest.raises(error):
            await asked(url)


@pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8"])
async def test_a_whole_body_is_a_reply_to_the_letter(kind: str) -> None:
    """Unknown fields and the spelling of numbers are kept, as from a stream."""
    body = json_text.dumps(MESSAGE)[:-1] + ',"odd":1.50,"usage":{"input_tokens":1}}'
    async with answering(body, kind) as url:
        assert json_text.dumps(await asked(url)) == body


@pytest.mark.parametrize("kind", [EVENTS, "application/octet-stream", ""])
async def test_a_stream_is_known_by_its_events(kind: str) -> None:
    """Gateways forget to name the type of what they pass on."""
    start = json.dumps({"type": "message_start", "message": {**MESSAGE, "usage": {}}})
    body = f'data: {start}\n\ndata: {{"type":"message_stop"}}\n\n'
    async with answering(body, kind) as url:
        assert (await asked(url))["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    "late",
    [
        '{"type":"error","error":{"type":"api_error","message":"m"}}',
        "[DONE]",
        '{"type":"content_block_delta"}',
    ],
)
async def test_what_follows_a_reply_takes_nothing_of_it(late: str) -> None:
    """A reply that is whole is paid for: nothing after its end loses it, or is told as its own."""
    start = json.dumps({"type": "message_start", "message": MESSAGE})
    body = f'data: {start}\n\ndata: {{"type":"message_stop"}}\n\ndata: {late}\n\n'
    told = list[object]()
    async with answering(body, EVENTS) as url:
        reply = await asked(url, progress=lambda _, event: told.append(event["type"]))
    assert (reply["stop_reason"], told) == ("end_turn", ["message_start"])


# ---- settings that lead elsewhere


async def test_a_page_is_no_messages_api(bench: Bench) -> None:
    """The run ends after three looks, and the failure shows the setting and what answered."""
    async with answering("<html>Welcome</html>", "text/html") as url:
        bench.api.url = url
        async with bench.worker(app_of()):
            result = await (await bench.start()).failed()
    assert f"ANTHROPIC_BASE_URL '{url}' answered 200" in result.detail
    assert "<html>Welcome" in result.detail
    assert result.spend.requests == 3
    assert result.spend.lost_requests == 0


async def test_nobody_listens(bench: Bench) -> None:
    """The run waits, for a server may come, and says where it looks for one."""
    bench.api.url = f"http://user:secret@127.0.0.1:{free_ports(1)[0]}/claude"
    async with bench.worker(app_of()):
        run: Run = await bench.start()
        await wait_until(run.failing_activity, 20, what="a failure that is shown")
        shown = await run.failing_activity()
        await run.handle.terminate("seen")
    assert "cannot reach ANTHROPIC_BASE_URL 'http://127.0.0.1:" in shown
    assert "/claude'" in shown
    assert "secret" not in shown


async def test_a_missing_page_is_no_missing_model() -> None:
    """Only the API's own 404 is about the model; another one is about the address."""
    async with answering("404 page not found", "text/plain", status=404) as url:
        posture = await made_of(url)
    assert posture.then == "stop"
    assert "That is no Messages API: check ANTHROPIC_BASE_URL" in posture.message


@pytest.mark.parametrize("url", ["", "foo", "ftp://api.anthropic.com", "http://", "http://[::1"])
def test_a_base_url_that_is_none_stops_the_worker(url: str) -> None:
    """Before any run is begun, with the setting's name."""
    with pytest.raises(UsageError, match="ANTHROPIC_BASE_URL"):
        claude.client(base_url=url, api_key="test")


async def test_a_key_that_is_missing_or_broken_is_named_and_not_shown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent, and no failure that people read holds the key."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    for key in (None, "sk-ant-secret\n"):
        posture = await made_of(bench.api.url, api_key=key)
        assert (posture.sent, posture.misconfigured) == (False, True)
        assert "ANTHROPIC_API_KEY" in posture.message
        assert "secret" not in posture.message


@pytest.mark.parametrize(
    ("named", "believed_s"),
    [
        (timedelta(hours=2), 7200),
        (timedelta(hours=-2), None),
        ("172800", None),
        ("soon", None),
        ("3", 3),
    ],
)
def test_a_moment_may_be_named_by_a_date(named: str | timedelta, believed_s: float | None) -> None:
    """`retry-after` is seconds or a date; what is long past, or far off, is not believed."""
    if isinstance(named, timedelta):
        named = format_datetime(datetime.now(UTC) + named)
    request = httpx2.Request("POST", "http://localhost/v1/messages")
    response = httpx2.Response(503, headers={"retry-after": named}, request=request)
    posture = claude.posture(anthropic.InternalServerError("m", response=response, body=None))
    assert posture is not None
    assert posture.delay_s == (believed_s and pytest.approx(believed_s, abs=600))
