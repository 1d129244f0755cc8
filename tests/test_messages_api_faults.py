"""Each scripted fault is exactly the trap that the real API sets, seen by the real SDK."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import pytest
import pytest_asyncio
from anthropic import DEFAULT_MAX_RETRIES, AsyncAnthropic

from onward.testing.messages_api import Fault, Script, ScriptedAPI, Step

CONTENT = [
    {"type": "text", "text": "I look at the order first, then at the customer."},
    {"type": "tool_use", "name": "look", "input": {"order": "o-1"}},
]
FAULTS = {
    "limited": Fault(status=429, retry_after=1.5),
    "spent": Fault.model_validate(
        {
            "status": 429,
            "error": {
                "type": "rate_limit_error",
                "message": "This organization has reached its spend limit.",
                "details": {"error_code": "enforced_spend_limit_reached"},
            },
        }
    ),
    "overloaded": Fault(status=529, headers={"x-should-retry": "true"}),
    "broken": Fault(status=500),
    "away": Fault(status=503),
    "proxy": Fault(status=502, html=True),
    "stream_error": Fault(stream_error="overloaded_error", after_events=5),
    "early_end": Fault(end_without_stop=True, after_events=6),
    "no_stop": Fault(end_without_stop=True),
    "cut": Fault(cut=True, after_events=5),
    "reset": Fault(cut=True, after_events=0),
    "stall": Fault(stall_s=30, after_events=4),
    "hold": Fault(hold_s=30),
    "short_hold": Fault(hold_s=0.05),
    "broken_json": Fault(broken_json=True),
    "text_plain": Fault(text_plain=True),
    "other_shape": Fault(other_shape=True),
    "unknown_delta": Fault(unknown_delta=True),
    "unstreamed": Fault(unstreamed=True),
}


def asking(script: str, *, max_tokens: int = 1000) -> dict[str, Any]:
    first = {"role": "user", "content": f"[script:{script}] Please."}
    return {"model": "claude-test", "max_tokens": max_tokens, "messages": [first]}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api() -> AsyncGenerator[ScriptedAPI]:
    scripts = {
        name: Script(steps=[Step(content=CONTENT, faults=[fault])])
        for name, fault in FAULTS.items()
    }
    forever = Step(content=CONTENT, faults=[Fault(status=500)], faults_forever=True)
    async with ScriptedAPI({**scripts, "forever": Script(steps=[forever])}) as running:
        yield running


MADE: list[AsyncAnthropic] = []


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def closing() -> AsyncGenerator[None]:
    """Close every client: one that the collector finds may be closed in a workflow's loop."""
    yield
    for made in MADE:
        await made.close()
    MADE.clear()


def client(api: ScriptedAPI, *, read_s: float = 5, **options: Any) -> Any:
    options = {"max_retries": 0, "timeout": read_s} | options
    MADE.append(AsyncAnthropic(base_url=api.url, api_key="any", **options))
    return MADE[-1]


async def final(api: ScriptedAPI, script: str, *, read_s: float = 5) -> Any:
    async with client(api, read_s=read_s).messages.stream(**asking(script)) as stream:
        return await stream.get_final_message()


@pytest.mark.parametrize(
    ("script", "error", "status"),
    [
        ("limited", anthropic.RateLimitError, 429),
        ("overloaded", anthropic.InternalServerError, 529),
        ("broken", anthropic.InternalServerError, 500),
        ("away", anthropic.InternalServerError, 503),
    ],
)
async def test_a_refusal_is_the_class_that_the_sdk_makes_of_it_and_the_next_attempt_works(
    api: ScriptedAPI, script: str, error: type[anthropic.APIStatusError], status: int
) -> None:
    """Status, type and request id reach the client; a fault belongs to one attempt."""
    with pytest.raises(error) as caught:
        await final(api, script)
    assert caught.value.status_code == status
    assert caught.value.request_id
    assert caught.value.type
    assert (await final(api, script)).stop_reason == "tool_use"


async def test_429_says_when_to_come_back_only_where_the_script_does(api: ScriptedAPI) -> None:
    """A rate limit passes; a spend limit has no `retry-after` and a code of its own."""
    with pytest.raises(anthropic.RateLimitError) as limited:
        await client(api).messages.create(**asking("limited"))
    with pytest.raises(anthropic.RateLimitError) as spent:
        await client(api).messages.create(**asking("spent"))
    assert limited.value.response.headers["retry-after"] == "1.5"
    assert "retry-after" not in spent.value.response.headers
    assert type(spent.value) is not anthropic.RateLimitError
    assert spent.value.error_code == "enforced_spend_limit_reached"


async def test_a_proxys_page_is_an_error_without_a_type(api: ScriptedAPI) -> None:
    """Not every 5xx is the API's own."""
    with pytest.raises(anthropic.InternalServerError) as caught:
        await final(api, "proxy")
    assert caught.value.type is None


async def test_an_error_in_mid_stream_has_status_200_and_a_type(api: ScriptedAPI) -> None:
    """Code that looks at the status calls it final; only the type tells (field problem B01)."""
    with pytest.raises(anthropic.APIStatusError) as caught:
        await final(api, "stream_error")
    assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
    assert api.journal[-1].events_sent == 5


@pytest.mark.parametrize("script", ["early_end", "no_stop"])
async def test_a_clean_end_before_message_stop_raises_nothing(
    api: ScriptedAPI, script: str
) -> None:
    """The SDK hands over a partial message: a client must ask for `message_stop` itself."""
    raw: Any = await client(api).messages.create(**asking(script), stream=True)
    seen = [event.type async for event in raw]
    assert "message_stop" not in seen
    assert not api.journal[-1].complete


async def test_the_sdk_hands_over_half_a_message_when_the_stream_ends_early(
    api: ScriptedAPI,
) -> None:
    """Trap 1 of the streaming API, so that our own guard against it is tested by it."""
    body = asking("early_end", max_tokens=999)
    async with client(api).messages.stream(**body) as stream:
        assert (await stream.get_final_message()).stop_reason is None


async def test_a_cut_connection_is_no_error_of_the_sdk(api: ScriptedAPI) -> None:
    """It is the transport's: code that catches only `anthropic` errors misses it."""
    with pytest.raises(httpx2.RemoteProtocolError):
        await final(api, "cut")
    assert api.journal[-1].outcome == "200, then the connection was cut"


async def test_a_connection_reset_before_any_byte_is_the_sdks_error(api: ScriptedAPI) -> None:
    """Unlike a cut in mid-stream it comes as `APIConnectionError`; the request was counted."""
    with pytest.raises(anthropic.APIConnectionError):
        await final(api, "reset")
    assert api.journal[-1].outcome == "cut before any byte"


async def test_a_stall_is_the_transports_timeout(api: ScriptedAPI) -> None:
    """Silence in mid-stream ends by the client's read timeout, in its own class."""
    with pytest.raises(httpx2.ReadTimeout):
        await final(api, "stall", read_s=0.3)


async def test_silence_before_the_first_byte_is_the_sdks_timeout(api: ScriptedAPI) -> None:
    """The same silence, before the headers, has another class; a short one is only late."""
    with pytest.raises(anthropic.APITimeoutError):
        await final(api, "hold", read_s=0.3)
    assert (await final(api, "short_hold")).stop_reason == "tool_use"


async def test_a_200_may_be_no_message(api: ScriptedAPI) -> None:
    """Three bodies that the SDK does not refuse as an API error; each must be validated."""
    with pytest.raises(json.JSONDecodeError):
        await client(api).messages.create(**asking("broken_json"))
    text: Any = await client(api).messages.create(**asking("text_plain"))
    assert isinstance(text, str)
    shape: Any = await client(api).messages.create(**asking("other_shape"))
    assert getattr(shape, "content", None) is None


async def test_a_delta_that_nobody_knows_is_lost_without_a_word(api: ScriptedAPI) -> None:
    """The SDK leaves it out of its message; the same reply in one piece would have had all."""
    raw: Any = await client(api).messages.create(**asking("unknown_delta"), stream=True)
    kinds = [event.delta.type async for event in raw if event.type == "content_block_delta"]
    assert kinds[0] == "unheard_delta"
    whole = await client(api).messages.create(**asking("unknown_delta", max_tokens=997))
    assert whole.stop_reason == "tool_use"


async def test_a_gateway_may_answer_in_one_piece_though_it_was_asked_to_stream(
    api: ScriptedAPI,
) -> None:
    """The SDK finds no event in it, and hands over nothing at all."""
    raw: Any = await client(api).messages.create(**asking("unstreamed"), stream=True)
    assert [event async for event in raw] == []
    assert raw.response.headers["content-type"].startswith("application/json")
    assert api.journal[-1].complete


async def test_a_fault_may_last_for_ever(api: ScriptedAPI) -> None:
    """What the SDK's default of two retries sends for one call is seen in the journal (B02)."""
    impatient = client(api, max_retries=DEFAULT_MAX_RETRIES)
    with pytest.raises(anthropic.InternalServerError):
        await impatient.messages.create(**asking("forever"))
    counts = [entry.headers["x-stainless-retry-count"] for entry in api.journal.of("forever")]
    assert counts == ["0", "1", "2"]


@pytest.mark.parametrize("script", ["cut", "early_end", "stall"])
async def test_stream_faults_break_a_whole_reply_too(api: ScriptedAPI, script: str) -> None:
    """Without streaming the same script breaks the JSON body."""
    body = asking(script, max_tokens=998)
    with pytest.raises((httpx2.TransportError, json.JSONDecodeError, anthropic.APIError)):
        await client(api, read_s=0.3).messages.create(**body)
