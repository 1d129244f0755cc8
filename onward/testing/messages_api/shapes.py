"""Which fields a request may have: top level, messages, blocks by type, tool definitions.

A table of our own and not the SDK's types, so that a helper field which the SDK invents is refused
here as it is by the API. A test compares the two.
"""

_CACHED = frozenset({"type", "cache_control"})
_RESULT = _CACHED | {"tool_use_id", "content"}
_MEDIA = _CACHED | {"source"}
_CALL = _CACHED | {"id", "name", "input"}

TOP_LEVEL = frozenset(
    {
        *("billing_policy", "cache_control", "compaction", "container", "context_management"),
        *("diagnostics", "fallback_credit_token", "fallbacks", "inference_geo", "max_tokens"),
        *("mcp_servers", "messages", "metadata", "model", "output_config", "service_tier"),
        *("speed", "stop_sequences", "stream", "system", "thinking", "thread", "tool_choice"),
        *("tools",),
    }
)
"""`temperature`, `top_p` and `top_k` went with anthropic-version 2026-10-21."""

REQUIRED = ("model", "max_tokens", "messages")

MESSAGE = frozenset({"role", "content"})

ROLES = ("user", "assistant", "system")

BLOCKS: dict[str, frozenset[str]] = {
    "text": _CACHED | {"text", "citations"},
    "image": _MEDIA | {"transformations"},
    "document": _MEDIA | {"title", "context", "citations"},
    "search_result": _MEDIA | {"title", "content", "citations"},
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": _CALL | {"caller", "toolset_name"},
    "tool_result": _RESULT | {"is_error", "toolset_name"},
    "tool_reference": _CACHED | {"tool_name"},
    "browser_state": _CACHED | {"tabs", "state_changes"},
    "server_tool_use": _CALL | {"caller"},
    "web_search_tool_result": _RESULT | {"caller"},
    "web_fetch_tool_result": _RESULT | {"caller"},
    "code_execution_tool_result": _RESULT,
    "bash_code_execution_tool_result": _RESULT,
    "text_editor_code_execution_tool_result": _RESULT,
    "tool_search_tool_result": _RESULT,
    "advisor_tool_result": _RESULT,
    "mcp_tool_use": _CALL | {"server_name"},
    "mcp_tool_result": _RESULT | {"is_error"},
    "mcp_tool_listing": frozenset({"type", "mcp_server_name", "tools"}),
    "container_upload": _CACHED | {"file_id"},
    "compaction": _CACHED | {"content", "encrypted_content", "signature", "tool_changes"},
    "fallback": frozenset({"type", "from", "to", "trigger"}),
    "tool_addition": _CACHED | {"tool"},
    "tool_removal": _CACHED | {"tool"},
}
"""Fields of every block type that a request may hold."""

NEEDED: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "server_tool_use": ("id", "name", "input"),
    "mcp_tool_use": ("id", "name", "input", "server_name"),
    "tool_result": ("tool_use_id",),
}
"""Fields that must be there, and not null."""

NOT_NULL = frozenset({"caller", "is_error"})
"""Optional fields that may be left out but not be null."""

USER_ONLY = frozenset({"image", "document", "search_result", "tool_result", "browser_state"})

ASSISTANT_ONLY = frozenset(
    {"thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"}
)

IN_RESULT = frozenset(
    {"text", "image", "search_result", "document", "tool_reference", "browser_state"}
)
"""Blocks that a tool result may hold."""

TOOL = frozenset(
    {
        *("name", "description", "input_schema", "type", "cache_control", "strict"),
        *("input_examples", "defer_loading", "allowed_callers", "eager_input_streaming"),
    }
)
"""Fields of a tool that the client runs; a server's tool has a dated `type` and its own fields."""

TOOL_NAME = r"^[a-zA-Z0-9_-]{1,128}$"
CALL_ID = r"^[a-zA-Z0-9_-]+$"
MAX_BREAKPOINTS = 4
