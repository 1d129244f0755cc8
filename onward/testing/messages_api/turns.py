"""Reading a request's messages, also malformed ones: what is no object or list counts as absent."""

import re

from onward.testing.messages_api.literal_json import Object, is_array, is_object

_SUMMARY = re.compile(r"A summary of (\d+) replies")


def messages_of(body: Object) -> list[Object]:
    """Return the request's messages."""
    return _objects(body.get("messages"))


def system_of(body: Object) -> list[Object]:
    """Return the system prompt as blocks; a string is short for one block of text."""
    system: object = body.get("system")
    return [{"type": "text", "text": system}] if isinstance(system, str) else _objects(system)


def blocks_of(message: Object) -> list[Object]:
    """Return a message's content as blocks; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _objects(content)


def role_of(message: Object) -> object:
    """Return a message's role."""
    return message.get("role")


def summary_text(body: Object) -> str:
    """Return the text of the summary that a request begins with; empty: it begins with none."""
    messages = messages_of(body)
    nothing: Object = {}
    first = next(iter(blocks_of(messages[0])), nothing) if messages else nothing
    return str(first.get("content") or "") if first.get("type") == "compaction" else ""


def step_number(body: Object) -> int:
    """Return how many assistant turns came before, those in a summary too."""
    summed_up = summary_text(body)
    turns = sum(role_of(message) == "assistant" for message in messages_of(body))
    # The summary itself is an assistant turn, but no reply.
    return summarized_replies(summed_up) + turns - 1 if summed_up else turns


def summarized_replies(text: str) -> int:
    """Return how many replies a summary of this server stands for."""
    found = _SUMMARY.match(text)
    return int(found.group(1)) if found else 0


def first_text(body: Object) -> str:
    """Return all text of the first user message, or of a summary in its place."""
    if summed_up := summary_text(body):
        return summed_up
    users = [message for message in messages_of(body) if role_of(message) == "user"]
    blocks = blocks_of(users[0]) if users else []
    return "\n".join(str(block.get("text", "")) for block in blocks)


def calls_of(message: Object) -> list[str]:
    """Return the ids of the tool calls in a message, in their order."""
    return [str(b.get("id")) for b in blocks_of(message) if b.get("type") == "tool_use"]


def results_of(message: Object) -> list[str]:
    """Return the ids that a message's tool results answer, in their order."""
    return [str(b.get("tool_use_id")) for b in blocks_of(message) if b.get("type") == "tool_result"]


def results_in_order(body: Object) -> bool | None:
    """Tell whether the last message answers the calls before it in their order; None: no results.

    The API does not ask for it; equal bytes after a crash do.
    """
    messages = messages_of(body)
    results = results_of(messages[-1]) if messages else []
    if not results:
        return None
    return len(messages) > 1 and results == calls_of(messages[-2])


def _objects(value: object) -> list[Object]:
    return [item for item in value if is_object(item)] if is_array(value) else []
