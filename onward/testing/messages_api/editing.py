"""Context editing: old tool results that the model does not read, though the request holds them."""

from collections.abc import Iterator

from onward.testing.messages_api.literal_json import Object, is_object
from onward.testing.messages_api.prompt import prompt_tokens
from onward.testing.messages_api.turns import blocks_of, messages_of

_CLEARS = "clear_tool_uses_20250919"
_TRIGGER_TOKENS = 100_000
_KEPT = 3
_CLEARED = "[cleared to save context]"


def edited(body: Object) -> tuple[Object, list[Object]]:
    """Return the request as the model reads it, and the edits that made it so."""
    edit = next((each for each in _edits(body) if each.get("type") == _CLEARS), None)
    if edit is None or prompt_tokens(body) <= _value(edit, "trigger", _TRIGGER_TOKENS):
        return body, []
    results = [
        id(block)
        for message in messages_of(body)
        for block in blocks_of(message)
        if block.get("type") == "tool_result"
    ]
    kept = _value(edit, "keep", _KEPT)
    cleared = set(results[:-kept] if kept else results)
    read = {**body, "messages": [_without(message, cleared) for message in messages_of(body)]}
    saved = prompt_tokens(body) - prompt_tokens(read)
    applied = {"cleared_tool_uses": len(cleared), "cleared_input_tokens": saved}
    return read, [{"type": _CLEARS, **applied}] if cleared else []


def _edits(body: Object) -> Iterator[Object]:
    managed: object = body.get("context_management")
    for edit in managed.get("edits") or () if is_object(managed) else ():
        if is_object(edit):
            yield edit


def _value(edit: Object, name: str, default: int) -> int:
    found: object = edit.get(name)
    return int(found.get("value", default)) if is_object(found) else default


def _without(message: Object, cleared: set[int]) -> Object:
    if not isinstance(message.get("content"), list):
        return message
    blocks = blocks_of(message)
    content = [{**each, "content": _CLEARED} if id(each) in cleared else each for each in blocks]
    return {**message, "content": content}
