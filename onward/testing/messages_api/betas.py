"""Features that need a beta header: without it, their fields and blocks are as unknown as any."""

from collections.abc import Iterator

from onward.testing.messages_api.literal_json import Object
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.turns import blocks_of, messages_of

ON_DEMAND = "compact-2026-09-04"
AT_THRESHOLD = "compact-2026-01-12"
EDITING = "context-management-2025-06-27"
TOOLS = {"mcp_toolset": "mcp-client-", "advisor_20260301": "advisor-tool-2026-03-01"}
"""How the names of the features begin that a request's tools need."""


def beta_violations(body: Object, header: str) -> Iterator[Violation]:
    """Yield what a request holds without naming its feature in the header `anthropic-beta`."""
    named = {name.strip() for name in header.split(",")}
    if body.get("compaction") is not None and ON_DEMAND not in named:
        yield Violation("beta", f"compaction: requires anthropic-beta: {ON_DEMAND}")
    if body.get("context_management") is not None and not named & {EDITING, AT_THRESHOLD}:
        yield Violation("beta", "context_management: Extra inputs are not permitted")
    yield from _tools(body.get("tools") or [], named)
    kinds = [block.get("type") for message in messages_of(body) for block in blocks_of(message)]
    if "compaction" in kinds and not named & {ON_DEMAND, AT_THRESHOLD}:
        yield Violation(
            "beta",
            "messages: Input tag 'compaction' found using 'type' does not match any of the "
            "expected tags",
        )


def _tools(tools: list[Object], named: set[str]) -> Iterator[Violation]:
    for index, tool in enumerate(tools):
        beta = TOOLS.get(str(tool.get("type")))
        if beta and not any(name.startswith(beta) for name in named):
            yield Violation(
                "beta",
                f"tools.{index}: Input tag {tool['type']!r} found using 'type' does not match any "
                "of the expected tags",
            )
