"""What the scripted API refuses, because the real one does: one broken request for each check."""

import copy
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, get_type_hints

import httpx2
import pytest
import pytest_asyncio
from anthropic import types
from anthropic.types import beta

from onward.testing.messages_api import Entry, Script, ScriptedAPI, Step
from onward.testing.messages_api.checks import check
from onward.testing.messages_api.literal_json import is_array, is_object, parse_body
from onward.testing.messages_api.memory import Memory
from onward.testing.messages_api.shapes import BLOCKS, TOOL, TOP_LEVEL

Body = dict[str, Any]
HOLOGRAM = {"type": "hologram", "cells": [1, 2.50], "note": None}
CONTENT = [
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "text", "text": "  "},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    HOLOGRAM,
    {"type": "text", "text": "Both."},
    {"type": "tool_use", "name": "refund", "input": {"order": "o-1", "amount": 1.0}},
    {"type": "tool_use", "name": "refund", "input": {"order": "o-2"}, "new": {"a": 1}},
]
TOOL_DEFINITION = {
    "name": "refund",
    "description": "Refund an order.",
    "input_schema": {"type": "object", "properties": {"order": {"type": "string"}, "amount": {}}},
}
HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21"}


@pytest_asyncio.fixture
async def api() -> AsyncGenerator[ScriptedAPI]:
    scripts = {
        "refund": Script(
            steps=[Step(content=CONTENT)],
            default=Step(content=[{"type": "text", "text": "Done."}]),
        ),
        "search": Script(
            steps=[
                Step(
                    content=[
                        {"type": "server_tool_use", "name": "web_search", "input": {"query": "x"}}
                    ],
                    stop_reason="pause_turn",
                )
            ],
            default=Step(content=[{"type": "text", "text": "Found."}]),
        ),
    }
    async with ScriptedAPI(scripts, accept_keys=["any"], models=["claude-test"]) as running:
        yield running


async def send(api: ScriptedAPI, body: Any, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx2.AsyncClient() as http:
        url = f"{api.url}/v1/messages"
        return await http.post(url, content=content, headers=HEADERS | headers)


def opening(script: str = "refund") -> Body:
    return {
        "model": "claude-test",
        "max_tokens": 1000,
        "system": [{"type": "text", "text": "You settle refunds."}],
        "tools": [copy.deepcopy(TOOL_DEFINITION)],
        "messages": [{"role": "user", "content": f"[script:{script}] Refund o-1 and o-2."}],
    }


async def second_step(api: ScriptedAPI) -> Body:
    """Return a valid request for the second step, after having sent the first."""
    body = opening()
    reply = (await send(api, body)).json()
    content = [block for block in reply["content"] if block.get("text") != "  "]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}
        for block in content
        if block["type"] == "tool_use"
    ]
    body["messages"] += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": results},
    ]
    return body


def last_entry(api: ScriptedAPI) -> Entry:
    return api.journal[-1]


def assistant(body: Body) -> list[Body]:
    content: list[Body] = body["messages"][1]["content"]
    return content


def results(body: Body) -> list[Body]:
    content: list[Body] = body["messages"][2]["content"]
    return content


def change(body: Body, path: str, value: Any) -> None:
    """Set what a dotted path names."""
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    at: Any = body
    for parent in parents:
        at = at[parent]
    at[last] = value


async def test_a_valid_second_step_is_accepted(api: ScriptedAPI) -> None:
    """All below break this one request; unknown blocks and fields come back as they were sent."""
    reply = await send(api, await second_step(api))
    assert reply.status_code == 200, reply.text
    assert api.journal.violations() == []


BROKEN: list[tuple[str, str, Callable[[Body], object]]] = [
    ("unanswered_call", "`tool_use` ids were found", lambda b: results(b).pop()),
    ("stray_result", "unexpected `tool_use_id`",
     lambda b: results(b).append({**results(b)[0], "tool_use_id": "toolu_stray"})),
    ("double_result", "each tool_use must have a single result",
     lambda b: results(b).append(dict(results(b)[0]))),
    ("unanswered_call", "without `tool_result` blocks immediately after",
     lambda b: results(b).insert(0, {"type": "text", "text": "Here they are:"})),
    ("unanswered_call", "in the next message",
     lambda b: b["messages"].append({"role": "user", "content": [results(b).pop()]})),
    ("empty_text", "must be non-empty",
     lambda b: results(b).append({"type": "text", "text": ""})),
    ("empty_text", "must contain non-whitespace text",
     lambda b: assistant(b).insert(1, {"type": "text", "text": "  "})),
    ("empty_text", "must be non-empty",
     lambda b: change(results(b)[0], "content", [{"type": "text", "text": ""}])),
    ("empty_text", "system: text content blocks", lambda b: change(b, "system.0.text", "")),
    ("empty_content", "must have non-empty content",
     lambda b: b["messages"].append({"role": "user", "content": []})),
    ("empty_error", "content cannot be empty if `is_error` is true",
     lambda b: results(b)[0].update(content="", is_error=True)),
    ("thinking", "cannot be modified", lambda b: change(assistant(b)[0], "signature", "other")),
    ("thinking", "cannot be modified", lambda b: assistant(b).pop(0)),
    ("thinking", "cannot be modified", lambda b: assistant(b).insert(1, assistant(b).pop(0))),
    ("altered", "not as sent", lambda b: change(assistant(b)[4], "input.amount", 1)),
    ("altered", "not as sent",
     lambda b: change(assistant(b)[4], "input", {"amount": 1.0, "order": "o-1"})),
    ("altered", "not as sent", lambda b: assistant(b).pop(3)),
    ("block_type", "Input tag 'hologram'", lambda b: change(assistant(b)[2], "note", "x")),
    ("prefix", "bound to a different conversation (system ",
     lambda b: change(b, "system.0.text", "You refuse refunds.")),
    ("prefix", "(tools ", lambda b: change(b, "tools.0.description", "Refund it.")),
    ("prefix", "(tools ",
     lambda b: change(b, "tools.0.input_schema",
                      dict(reversed(b["tools"][0]["input_schema"].items())))),
    ("prefix", "(messages.0 ",
     lambda b: [b["messages"][0].update(content="[script:refund] Refund o-1 and o-3."),
                assistant(b).pop(2), assistant(b)[-1].pop("new")]),
    ("unknown_key", "text.parsed_output: Extra inputs are not permitted",
     lambda b: change(assistant(b)[3], "parsed_output", None)),
    ("unknown_key", "tool_result.name: Extra inputs",
     lambda b: change(results(b)[0], "name", "refund")),
    ("unknown_key", "thinking.cache_control: Extra inputs",
     lambda b: change(assistant(b)[0], "cache_control", {"type": "ephemeral"})),
    ("unknown_key", "tools.0.custom.effect: Extra inputs",
     lambda b: change(b, "tools.0.effect", "keyed")),
    ("unknown_key", "messages.1.id: Extra inputs",
     lambda b: change(b, "messages.1.id", "msg_01")),
    ("unknown_key", "temperature: Extra inputs", lambda b: change(b, "temperature", 1.0)),
    ("unknown_key", "top_p: Extra inputs", lambda b: change(b, "top_p", 1)),
    ("unknown_key", "top_k: Extra inputs", lambda b: change(b, "top_k", 1)),
    ("null", "tool_use.caller", lambda b: change(assistant(b)[4], "caller", None)),
    ("block_type", "Input tag 'tool_use'", lambda b: results(b).append(assistant(b)[4])),
    ("block_type", "Input tag 'document'", lambda b: assistant(b).append(
        {"type": "document", "source": {"type": "text", "data": "x"}})),
    ("citations", "not permitted in user messages", lambda b: results(b).append(
        {"type": "text", "text": "x", "citations": [{"type": "char_location"}]})),
    ("pattern", "tools.0.custom.name: String should match pattern",
     lambda b: change(b, "tools.0.name", "re fund")),
    ("tools", "Tool names must be unique", lambda b: b["tools"].append(TOOL_DEFINITION)),
    ("breakpoints", "A maximum of 4 blocks with cache_control",
     lambda b: [b.update(cache_control={"type": "ephemeral"})] + [
         block.update(cache_control={"type": "ephemeral"})
         for block in [*b["system"], *b["tools"], *results(b)]]),
    ("prefill", "does not support assistant message prefill",
     lambda b: b["messages"].append({"role": "assistant", "content": "The"})),
    ("first_role", 'first message must use the "user" role',
     lambda b: b["messages"].insert(0, {"role": "assistant", "content": "Hello."})),
    ("role", "Unexpected role 'tool'", lambda b: change(b, "messages.2.role", "tool")),
    ("missing", "max_tokens: Field required", lambda b: b.pop("max_tokens")),
    ("missing", "model: Field required", lambda b: b.pop("model")),
    ("missing", "messages: Field required", lambda b: b.pop("messages")),
    ("missing", "tool_use.input: Field required", lambda b: assistant(b)[4].pop("input")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "said", "break_it"), BROKEN)
async def test_a_broken_request_is_refused_and_named(
    api: ScriptedAPI, name: str, said: str, break_it: Callable[[Body], object]
) -> None:
    """The client gets the API's own words, the journal the name of the check."""
    body = await second_step(api)
    break_it(body)
    reply = await send(api, body)
    error = reply.json()["error"]
    assert reply.status_code == 400, reply.text
    assert error["type"] == "invalid_request_error"
    assert said in error["message"]
    assert last_entry(api).violations[0] == name


HARMLESS: list[Callable[[Body], object]] = [
    lambda b: b.update(max_tokens=2000),
    lambda b: change(b, "tools.0.cache_control", {"type": "ephemeral"}),
    lambda b: change(b, "messages.1.content.4.cache_control", {"type": "ephemeral"}),
    lambda b: change(b, "tools.0", dict(reversed(b["tools"][0].items()))),
    lambda b: results(b).append({"type": "text", "text": "Go on."}),
    lambda b: results(b).reverse(),
    lambda b: change(b, "messages.2.content.0.content", "another result"),
]


@pytest.mark.parametrize("harmless", HARMLESS)
async def test_what_the_api_allows_is_allowed(
    api: ScriptedAPI, harmless: Callable[[Body], object]
) -> None:
    """A redo, a moved breakpoint, a new last message: no change of what was sent before."""
    body = await second_step(api)
    await send(api, body)
    harmless(body)
    reply = await send(api, body)
    assert reply.status_code == 200, reply.text


async def test_the_order_of_results_is_reported_not_refused(api: ScriptedAPI) -> None:
    """The API takes results in any order; whether bytes repeat after a crash is ours to see."""
    body = await second_step(api)
    results(body).reverse()
    await send(api, body)
    assert last_entry(api).results_in_order is False


async def test_a_changed_turn_is_found_however_deep_it_lies(api: ScriptedAPI) -> None:
    """Every earlier message is bound, not only the last one; every fork is true to itself."""
    body = await second_step(api)
    reply = (await send(api, body)).json()
    body["messages"] += [
        {"role": "assistant", "content": reply["content"]},
        {"role": "user", "content": "And now?"},
    ]
    assert (await send(api, body)).status_code == 200
    results(body)[0]["content"] = "rewritten"
    refused = await send(api, body)
    assert last_entry(api).violations == ["prefix"]
    assert "messages.2 is not what was sent before" in refused.json()["error"]["message"]


async def test_a_paused_turn_goes_back_as_the_last_message(api: ScriptedAPI) -> None:
    """After `pause_turn` the assistant turn ends the request; nothing may stand beside it (A14)."""
    body = opening("search")
    reply = (await send(api, body)).json()
    body["messages"].append({"role": "assistant", "content": reply["content"]})
    beside = copy.deepcopy(body)
    beside["messages"].append({"role": "user", "content": "Faster, please."})
    assert (await send(api, beside)).status_code == 400
    assert last_entry(api).violations == ["beside_server_call"]
    assert (await send(api, body)).json()["stop_reason"] == "end_turn"


async def test_results_for_waiting_code_need_its_container(api: ScriptedAPI) -> None:
    """Code that Claude runs waits for its calls in a container, which the request must name."""
    body = await second_step(api)
    caller = {"type": "code_execution_20260521", "tool_id": "srvtoolu_1"}
    assistant(body)[-1]["caller"] = caller
    await send(api, body)
    assert "container" in last_entry(api).violations
    await send(api, {**body, "container": "container_1"})
    assert "container" not in last_entry(api).violations


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"model": "\xff"}', "not valid JSON"),
        (b'{"model": "\\ud83d"}', "no low surrogate in string"),
        (b'{"model": NaN}', "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "expected an object"),
        (b'{"messages": [7], "model": 1, "max_tokens": "x"}', "max_tokens: Input should be"),
        (b'{"messages": {}, "model": "claude-test", "max_tokens": 1}', "a valid list"),
        (b'{"tools": 7, "model": "claude-test", "max_tokens": 1}', "messages: Field required"),
        (
            b'{"system": [7], "messages": [{}], "model": "claude-test", "max_tokens": 1}',
            "valid dictionary",
        ),
        (b'{"messages": [{"role": "user", "content": [{"type": []}]}], "max_tokens": 1}', "model:"),
        (b'{"messages": [], "model": "claude-test", "max_tokens": 1}', "at least one message"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(
    api: ScriptedAPI, body: bytes, said: str
) -> None:
    """No request, however malformed, is more than a 400; half a surrogate pair is malformed."""
    reply = await send(api, body)
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]
    assert len(api.journal) == 1


@pytest.mark.parametrize(
    ("headers", "model", "status", "kind"),
    [
        ({"x-api-key": "wrong"}, "claude-test", 401, "authentication_error"),
        ({"x-api-key": "", "authorization": "Bearer wrong"}, "claude-test", 401,
         "authentication_error"),
        ({"x-api-key": ""}, "claude-test", 401, "authentication_error"),
        ({}, "claude-gone", 404, "not_found_error"),
    ],
)  # fmt: skip
async def test_a_wrong_key_and_an_unknown_model_have_their_own_status(
    api: ScriptedAPI, headers: dict[str, str], model: str, status: int, kind: str
) -> None:
    """In the documented shape, with a request id."""
    reply = await send(api, {**opening(), "model": model}, **headers)
    assert reply.status_code == status
    assert reply.json()["error"]["type"] == kind
    assert reply.json()["request_id"] == reply.headers["request-id"]


async def test_a_body_above_32_mb_is_a_413(api: ScriptedAPI) -> None:
    """Bytes, not tokens, are what piled-up images run into (A20)."""
    reply = await send(api, b" " * (32 * 1024 * 1024) + json.dumps(opening()).encode())
    assert reply.status_code == 413
    assert reply.json()["error"]["type"] == "request_too_large"
    assert last_entry(api).body == ""


async def test_no_malformed_request_breaks_the_checks(api: ScriptedAPI) -> None:
    """Each value of a valid request, replaced by every other type, is judged, not crashed on."""
    valid = await second_step(api)
    strange: list[Any] = [None, 7, 1.5, True, "", "x", [], [7], [[]], [{}], {}]
    strange += [{"type": "text"}, {"type": []}]
    for path in list(_paths(valid)):
        for value in strange:
            body = copy.deepcopy(valid)
            change(body, path, value)
            check(parse_body(json.dumps(body).encode()), Memory().conversation("any"))


def _paths(value: Any, at: str = "") -> Iterator[str]:
    keys: Any = value if is_object(value) else range(len(value))
    for key in keys:
        yield f"{at}{key}"
        inner = value[key]
        if is_object(inner) or is_array(inner):
            yield from _paths(inner, f"{at}{key}.")


def test_our_table_of_fields_is_the_sdks() -> None:
    """The table is our own, so that it does not follow an SDK's mistake, but nothing is missing."""
    known: dict[str, set[str]] = {}
    for module in (types, beta):
        for name in dir(module):
            hints = _hints(getattr(module, name)) if name.endswith("BlockParam") else {}
            kind = getattr(hints.get("type"), "__args__", [""])[0]
            if kind in BLOCKS:
                known[kind] = known.get(kind, set()) | hints.keys()
    assert known == {kind: set(fields) for kind, fields in BLOCKS.items()}
    assert _hints(types.ToolParam).keys() == TOOL
    sdk = _hints(beta.message_create_params.MessageCreateParamsBase).keys()
    assert sdk - {"betas", "user_profile_id", "workspace_id"} | {"stream"} == TOP_LEVEL


def _hints(typed_dict: Any) -> dict[str, Any]:
    return get_type_hints(typed_dict) if hasattr(typed_dict, "__total__") else {}
