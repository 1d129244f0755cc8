"""What people found broken on the wire to Claude: retried once too often, or not at all."""

import ssl

import anthropic
import httpx2
import pytest
from agent_runs import Bench, app_of, says, uses

from onward import Limits, claude, tool
from onward.claude_request import reply_request
from onward.stream import StreamBroken
from onward.testing.messages_api import ErrorDetail, Fault

STOPS = [400, 401, 403, 404, 413, 422]
RETRIED = [408, 409, 429, 500, 503, 529]


@tool
async def act() -> str:
    """Act."""
    return "acted"


@pytest.mark.field("B01")
async def test_an_overload_inside_a_stream_is_retried(bench: Bench) -> None:
    """Classified by the error's type, not by the 200 before it; its tokens count as lost."""
    step = uses(("act", {}), faults=[Fault(stream_error="overloaded_error")])
    run = await bench.run(app_of(act), step, says())
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("completed", 3)
    assert (run.result.spend.requests, run.result.spend.lost_requests) == (3, 1)
    assert (await run.activities()).count("act") == 1


@pytest.mark.field("B02")
async def test_one_retry_layer(bench: Bench) -> None:
    """Claude answers 500 for ever and three requests are allowed: exactly three are sent."""
    app = app_of(limits=Limits(max_requests_per_step=3))
    async with bench.worker(app):
        run = await bench.start(says(faults=[Fault(status=500)], faults_forever=True))
        failure = await run.failed()
    assert len(run.requests) == 3
    assert failure.spend.requests == 3
    assert "500" in failure.detail
    assert "req_" in failure.detail


@pytest.mark.field("B04")
@pytest.mark.parametrize("status", STOPS)
async def test_what_cannot_succeed_is_asked_once(bench: Bench, status: int) -> None:
    """A refusal ends the step at its first request, with status, type and request id."""
    async with bench.worker(app_of()):
        run = await bench.start(says(faults=[Fault(status=status)], faults_forever=True))
        failure = await run.failed() if status != 413 else await run.ended()
    assert len(run.requests) == 1
    assert failure.outcome == ("context_exceeded" if status == 413 else "failed")
    assert str(status) in failure.detail
    assert "req_" in failure.detail


@pytest.mark.field("B04")
@pytest.mark.parametrize("status", RETRIED)
async def test_what_may_succeed_is_asked_again(bench: Bench, status: int) -> None:
    """An overload or a throttle is waited out, as long as the answer says."""
    fault = Fault(status=status, retry_after=0.1)
    run = await bench.run(app_of(), says(faults=[fault, fault]))
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("completed", 3)


@pytest.mark.field("B04")
@pytest.mark.parametrize(
    "fault",
    [
        Fault(cut=True, after_events=0),
        Fault(cut=True, after_events=3),
        Fault(end_without_stop=True),
        Fault(broken_json=True),
        Fault(text_plain=True),
        Fault(other_shape=True),
    ],
    ids=lambda fault: str(fault.model_dump(exclude_defaults=True)),
)
async def test_a_reply_that_is_not_whole_is_never_recorded(bench: Bench, fault: Fault) -> None:
    """The traps of the wire lead to another request, never to a recorded reply."""
    run = await bench.run(app_of(), says("whole", faults=[fault]))
    assert run.result is not None
    assert (run.result.outcome, run.result.text, len(run.requests)) == ("completed", "whole", 2)


def refused(cause: Exception) -> anthropic.APIConnectionError:
    """An error as the client raises it for a connection that failed."""
    error = anthropic.APIConnectionError(request=httpx2.Request("POST", "http://localhost"))
    error.__cause__ = cause
    return error


def timed_out(cause: Exception) -> Exception:
    """Make the SDK's error for a request that took too long."""
    error = anthropic.APITimeoutError(request=httpx2.Request("POST", "http://x"))
    error.__cause__ = cause
    return error


@pytest.mark.field("B04")
@pytest.mark.parametrize(
    ("error", "then", "sent"),
    [
        (refused(httpx2.ConnectError("refused")), "retry", False),
        (refused(httpx2.ConnectError(str(ssl.SSLError("bad certificate")))), "retry", False),
        (refused(httpx2.ReadError("reset")), "retry", True),
        (timed_out(httpx2.ConnectTimeout("no answer")), "retry", False),
        (timed_out(httpx2.ReadTimeout("no answer")), "retry", True),
        (httpx2.RemoteProtocolError("cut"), "retry", True),
        (httpx2.ReadTimeout("stalled"), "retry", True),
        (StreamBroken("no message_stop"), "retry", True),
        (anthropic.APITimeoutError(request=httpx2.Request("POST", "http://x")), "retry", True),
    ],
    ids=repr,
)
def test_the_posture_of_a_broken_connection(error: Exception, then: str, *, sent: bool) -> None:
    """Broken connections are retried; only those before any byte cost nothing for certain."""
    posture = claude.posture(error)
    assert posture is not None
    assert (posture.then, posture.sent) == (then, sent)


def test_a_spend_cap_is_not_retried_soon() -> None:
    """A 429 without a hint waits, and one that names a spend limit waits long."""
    assert _delay({}) == 20.0
    assert _delay({"retry-after": "7"}) == 7.0
    assert _delay({"retry-after-ms": "250"}) == 0.25
    assert _delay({"retry-after": "inf"}) == 20.0


def _delay(headers: dict[str, str]) -> float | None:
    request = httpx2.Request("POST", "http://localhost")
    response = httpx2.Response(429, headers=headers, request=request)
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}
    found = claude.posture(anthropic.RateLimitError("slow", response=response, body=body))
    return found.delay_s if found else None


async def test_an_enforced_spend_limit_waits_an_hour(bench: Bench) -> None:
    """A 429 whose error code names a spend limit is not asked again for an hour."""
    detail = ErrorDetail(
        type="rate_limit_error",
        message="spend limit",
        details={"error_code": "enforced_spend_limit_reached"},
    )
    bench.api.scripts["cap"] = bench.script(says(faults=[Fault(status=429, error=detail)]))
    request = reply_request(
        '{"model":"claude-sonnet-5-5","max_tokens":10}',
        [b'{"role":"user","content":"[script:cap]"}'],
    )
    async with claude.client(base_url=bench.api.url, api_key="test") as client:
        with pytest.raises(anthropic.RateLimitError) as caught:
            await claude.ask(client, request, _nothing, _nothing)
    posture = claude.posture(caught.value)
    assert posture is not None
    assert posture.delay_s == 3600.0


def _nothing(*_: object) -> None:
    """Hear what comes, and do nothing."""


async def test_a_prompt_that_is_too_long_has_its_outcome(bench: Bench) -> None:
    """The API says it with a 400: not a failure of the run, but `context_exceeded`."""
    said = "prompt is too long: 208310 tokens > 200000 maximum"
    fault = Fault(status=400, error=ErrorDetail(type="invalid_request_error", message=said))
    run = await bench.run(app_of(), says(faults=[fault], faults_forever=True))
    assert run.result is not None
    assert (run.result.outcome, len(run.requests)) == ("context_exceeded", 1)


@pytest.mark.field("B05")
@pytest.mark.parametrize("max_tokens", [32_000, 64_000])
async def test_a_large_max_tokens_needs_nothing_special(bench: Bench, max_tokens: int) -> None:
    """The client refuses long requests that do not stream; ours always stream."""
    run = await bench.run(app_of(max_tokens=max_tokens), says())
    assert run.result is not None
    assert run.result.outcome == "completed"
