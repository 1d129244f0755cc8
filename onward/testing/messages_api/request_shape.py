"""The outline of a request: required fields, no unknown ones, lists of objects where they belong.

Everything after this may rely on it.
"""

from collections.abc import Iterator
from typing import Any

from onward.testing.messages_api.literal_json import Object, is_array, is_object
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.shapes import MESSAGE, REQUIRED, ROLES, TOP_LEVEL
from onward.testing.messages_api.turns import role_of, summary_text


def shape_violations(body: Object) -> Iterator[Violation]:
    """Yield what is wrong with the outline of a request."""
    yield from _top_level(body)
    yield from _tools(body.get("tools"))
    yield from _message_shapes(body)


def _top_level(body: Object) -> Iterator[Violation]:
    for name in REQUIRED:
        if body.get(name) is None:
            yield Violation("missing", f"{name}: Field required")
    for name in body.keys() - TOP_LEVEL:
        yield Violation("unknown_key", f"{name}: Extra inputs are not permitted")
    max_tokens = body.get("max_tokens", 0)
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 0:
        yield Violation("max_tokens", "max_tokens: Input should be a valid integer")
    if not isinstance(body.get("model", ""), str):
        yield Violation("model", "model: Input should be a valid string")
    system: object = body.get("system")
    if is_array(system):
        yield from _blocks("system", system)
    elif system is not None and not isinstance(system, str):
        yield Violation("system", "system: Input should be a valid list")


def _tools(tools: object) -> Iterator[Violation]:
    if is_array(tools):
        for index, tool in enumerate(tools):
            if not is_object(tool):
                yield Violation("tools", f"tools.{index}: Input should be a valid dictionary")
    elif tools is not None:
        yield Violation("tools", "tools: Input should be a valid list")


def _message_shapes(body: Object) -> Iterator[Violation]:
    messages: object = body.get("messages")
    if messages is None:
        return
    if not is_array(messages):
        yield Violation("messages", "messages: Input should be a valid list")
        return
    if not messages:
        yield Violation("messages", "messages: at least one message is required")
    for index, message in enumerate(messages):
        yield from _message_shape(f"messages.{index}", message)
    first_role = role_of(messages[0]) if messages and is_object(messages[0]) else "user"
    if first_role != "user" and not summary_text(body):
        yield Violation("first_role", 'messages: first message must use the "user" role')


def _message_shape(at: str, message: object) -> Iterator[Violation]:
    if not is_object(message):
        yield Violation("messages", f"{at}: Input should be a valid dictionary")
        return
    for name in message.keys() - MESSAGE:
        yield Violation("unknown_key", f"{at}.{name}: Extra inputs are not permitted")
    if role_of(message) not in ROLES:
        yield Violation(
            "role",
            f"messages: Unexpected role {role_of(message)!r}. "
            'Allowed roles are "user" or "assistant".',
        )
    content: object = message.get("content")
    if is_array(content):
        yield from _blocks(f"{at}.content", content)
    elif not isinstance(content, str):
        yield Violation("content", f"{at}.content: Input should be a valid list")


def _blocks(at: str, blocks: list[Any]) -> Iterator[Violation]:
    for index, block in enumerate(blocks):
        if not is_object(block):
            yield Violation("content", f"{at}.{index}: Input should be a valid dictionary")
        elif not isinstance(block.get("type"), str):
            yield Violation("content", f"{at}.{index}: Unable to extract tag using 'type'")
        elif block["type"] == "tool_result" and is_array(inner := block.get("content")):
            yield from _blocks(f"{at}.{index}.tool_result.content", inner)
