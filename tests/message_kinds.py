"""Every kind of content that Claude sends, made by hand: what a checkout alone is tested with."""

from typing import Any

from onward.testing.messages_api.literal_json import parse

CITED = {"type": "char_location", "cited_text": "It rains.", "document_index": 0}
USAGE = {
    "input_tokens": 4,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 2000,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
    "output_tokens": 17,
    "output_tokens_details": {"thinking_tokens": 5},
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
    "service_tier": "standard",
    "iterations": [{"type": "message", "input_tokens": 4, "output_tokens": 17}],
}
FOUND: dict[str, Any] = {
    "web_fetch": {"type": "web_fetch_result", "url": "https://x", "retrieved_at": None},
    "code_execution": {"type": "code_execution_result", "stdout": "1\n", "return_code": 0},
    "bash_code_execution": {"type": "bash_code_execution_result", "content": []},
    "text_editor_code_execution": {"type": "text_editor_code_execution_view_result"},
    "tool_search": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "look"}],
    },
    "advisor": {"type": "advisor_result", "text": "Do not."},
}
"""What tools find that the API runs, by their name."""


def _served(name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": {"x": "y"}}
    told = {"type": f"{name}_tool_result", "tool_use_id": "srvtoolu_1", "content": found}
    return [asked, told]


KINDS: dict[str, list[dict[str, Any]]] = {
    "text": [{"type": "text", "text": "Grüße, 你好 \u2028 \U0001f600."}],
    "empty": [],
    "thinking": [{"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}],
    "omitted_thinking": [{"type": "thinking", "thinking": "", "signature": "c2ln"}],
    "redacted_thinking": [{"type": "redacted_thinking", "data": "ZGF0YQ=="}],
    "citations": [{"type": "text", "text": "It rains.", "citations": [CITED, CITED]}],
    "parallel_calls": [
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"z": 1, "a": [None]}},
        {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
    ],
    "server_tool": [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "rain"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {"type": "web_search_result", "title": "Rain", "encrypted_content": "eA=="}
            ],
        },
    ],
    "mcp": [
        {
            "type": "mcp_tool_use",
            "id": "mcptoolu_1",
            "name": "echo",
            "input": {"a": 1},
            "server_name": "s",
        },
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
    ],
    "compaction": [{"type": "compaction", "content": "So far: rain.", "encrypted_content": "eA=="}],
    "fallback": [{"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}],
    "interleaved_thinking": [
        {"type": "thinking", "thinking": "First this.", "signature": "UzE="},
        {"type": "text", "text": "I look."},
        {"type": "thinking", "thinking": "", "signature": "UzI="},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"z": 1, "a": 2}},
        {"type": "tool_use", "id": "toolu_2", "name": "act", "input": {}},
    ],
    "call_beside_a_server_tool": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    ],
    "call_of_claudes_code": [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "code_execution",
            "input": {"code": "await look()"},
            "caller": {"type": "direct"},
        },
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "look",
            "input": {},
            "caller": {"type": "code_execution_20260521", "tool_id": "srvtoolu_1"},
        },
    ],
    **{kind: _served(kind, found) for kind, found in FOUND.items()},
    "blank_text": [{"type": "text", "text": "\n\n"}, {"type": "text", "text": "Hi."}],
    "literals": parse(
        '[{"type":"tool_use","id":"toolu_1","name":"look","input":{"z":1e400,"a":1.50,"m":-0,'
        '"n":[1E5,12345678901234567890123,1.0]}},{"type":"hologram","cells":[1e400,1.50]}]'
    ),
    "unknown": [{"type": "hologram", "cells": [1, 2.5, 10**30], "note": None}],
    "unknown_field": [{"type": "text", "text": "Hi.", "hue": {"deep": [True]}}],
}
