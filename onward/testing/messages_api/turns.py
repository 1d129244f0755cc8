"""Reading a request's messages, also malformed ones: what is no object or list counts as absent."""

from onward.testing.messages_api.literal_json import Object, is_array, is_object


def messages_of(body: Object) -> list[Object]:
    """Return the request's messages."""
    return _objects(body.get("messages"))


def blocks_of(message: Object) -> list[Object]:
    """Return a message's content as blocks; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _objects(content)


def role_of(message: Object) -> object:
    """Return a message's role."""
    return message.get("role")


def step_number(body: Object) -> int:
    """Return how many assistant turns the request holds."""
    return sum(role_of(message) == "assistant" for message in messages_of(body))


def first_text(body: Object) -> str:
    """Return all text of the first user message."""
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
