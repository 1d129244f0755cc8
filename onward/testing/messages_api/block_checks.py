"""Checks of single blocks and tool definitions: known type, known fields, right role."""

import re
from collections.abc import Iterator

from onward.testing.messages_api.literal_json import Object, is_array, is_object
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.shapes import (
    ASSISTANT_ONLY,
    BLOCKS,
    CALL_ID,
    IN_RESULT,
    NEEDED,
    NOT_NULL,
    TOOL,
    TOOL_NAME,
    USER_ONLY,
)


def block_violations(at: str, block: Object, role: str) -> Iterator[Violation]:
    """Yield what is wrong with one block of a message of `role`, or of the system prompt."""
    kind = block.get("type")
    if kind not in BLOCKS or not _allowed(str(kind), role):
        tags = ", ".join(f"'{name}'" for name in BLOCKS if _allowed(name, role))
        yield Violation(
            "block_type",
            f"{at}: Input tag {kind!r} found using 'type' does not match any of the expected "
            f"tags: {tags}",
        )
        return
    where = f"{at}.{kind}"
    yield from _fields(where, block, str(kind))
    if kind == "tool_use":
        yield from _call(where, block)
    if kind == "text" and role == "user" and block.get("citations"):
        yield Violation("citations", f"{where}.citations: not permitted in user messages")
    content: object = block.get("content")
    if kind == "tool_result":
        yield from _result(where, content)


def tool_violations(tools: list[Object]) -> Iterator[Violation]:
    """Yield what is wrong with a request's tool definitions."""
    for index, tool in enumerate(tools):
        if tool.get("type") in (None, "custom"):
            yield from _tool(f"tools.{index}.custom", tool)
    names = [str(tool.get("name", index)) for index, tool in enumerate(tools)]
    if len(set(names)) < len(names):
        yield Violation("tools", "tools: Tool names must be unique.")


def _allowed(kind: str, role: str) -> bool:
    match role:
        case "assistant":
            return kind not in USER_ONLY
        case "user":
            return kind not in ASSISTANT_ONLY
        case "result":
            return kind in IN_RESULT
        case _:
            return kind in ("text", "tool_addition", "tool_removal")


def _fields(where: str, block: Object, kind: str) -> Iterator[Violation]:
    for name in block.keys() - BLOCKS[kind]:
        yield Violation("unknown_key", f"{where}.{name}: Extra inputs are not permitted")
    for name in NEEDED.get(kind, ()):
        if block.get(name) is None:
            yield Violation("missing", f"{where}.{name}: Field required")
    for name in NOT_NULL & block.keys():
        if block[name] is None:
            yield Violation("null", f"{where}.{name}: Input should not be null")
    if kind == "text" and not isinstance(block.get("text", ""), str):
        yield Violation("text", f"{where}.text: Input should be a valid string")


def _call(where: str, block: Object) -> Iterator[Violation]:
    for name, pattern in (("id", CALL_ID), ("name", TOOL_NAME)):
        if not re.fullmatch(pattern, str(block.get(name, ""))):
            message = f"{where}.{name}: String should match pattern '{pattern}'"
            yield Violation("pattern", message)
    if not is_object(block.get("input", {})):
        yield Violation("input", f"{where}.input: Input should be a valid dictionary")


def _result(where: str, content: object) -> Iterator[Violation]:
    if is_array(content):
        for index, inner in enumerate(content):
            yield from block_violations(f"{where}.content.{index}", inner, "result")
    elif content is not None and not isinstance(content, str):
        yield Violation("content", f"{where}.content: Input should be a valid string")


def _tool(where: str, tool: Object) -> Iterator[Violation]:
    for name in tool.keys() - TOOL:
        yield Violation("unknown_key", f"{where}.{name}: Extra inputs are not permitted")
    if not re.fullmatch(TOOL_NAME, str(tool.get("name", ""))):
        yield Violation("pattern", f"{where}.name: String should match pattern '{TOOL_NAME}'")
    schema: object = tool.get("input_schema")
    if not is_object(schema):
        yield Violation("missing", f"{where}.input_schema: Field required")
    elif schema.get("type") != "object":
        yield Violation("schema", f"{where}.input_schema.type: Input should be 'object'")
