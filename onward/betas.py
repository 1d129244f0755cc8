"""Beta features that a request needs, told by what is in it.

Without its name in the header `anthropic-beta`, the API refuses a feature's fields and blocks. A
gateway that knows no beta feature is not bothered until one is used.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from onward.models.table import undated

SUMMARY = "compact-2026-09-04"
"""A summary on demand, and a conversation that begins with one."""
AT_THRESHOLD = "compact-2026-01-12"
"""A summary that the API makes by itself, and a conversation that goes on with one."""
_EDITING = "context-management-2025-06-27"
_MCP = "mcp-client-2026-09-15"
_TOOLS = {"advisor_": "advisor-tool-2026-03-01", "mcp_toolset": _MCP}
"""By how the type of a server's tool begins."""
_FIELDS = {
    "compaction": SUMMARY,
    "mcp_servers": _MCP,
    "fallbacks": "server-side-fallback-2026-07-01",
    "output_config.task_budget": "task-budgets-2026-03-13",
    "thinking.block_binding": "thinking-binding-controls-2026-08-01",
}
_FAST, _FAST_IN_PREVIEW = "fast-mode-2026-02-01", {"claude-opus-5", "claude-opus-4-8"}


def betas_of(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a request needs for its fields, its messages aside; one may come twice."""
    yield from _editing(body.get("context_management") or {})
    for tool in body.get("tools") or ():
        kind = str(tool.get("type") or "")
        yield from (beta for begins, beta in _TOOLS.items() if kind.startswith(begins))
    for path, beta in _FIELDS.items():
        outer, _, inner = path.partition(".")
        value = body.get(outer)
        if value and (not inner or value.get(inner)):
            yield beta
    thinking: Mapping[str, Any] = body.get("thinking") or {}
    if thinking.get("display") == "updates":
        yield "thinking-display-updates-2026-08-18"
    if body.get("speed") and undated(str(body["model"])) in _FAST_IN_PREVIEW:
        yield _FAST


def _editing(managed: Mapping[str, Any]) -> Iterator[str]:
    edits = [str(edit.get("type")) for edit in managed.get("edits") or ()]
    if edits:
        yield _EDITING
    if any(edit.startswith("compact_") for edit in edits):
        yield AT_THRESHOLD
