"""Token counts of a scripted reply: a plain estimate that depends on the request alone.

A token is four bytes of text; an image counts as one of usual size, whatever its bytes. Cache
counters are filled only where the request sets `cache_control`: what comes before the last
assistant turn counts as read, what comes after it as written. A server that remembers would have
to answer a repeat differently; pass another rule to `ScriptedAPI(usage=…)` to simulate more.
"""

import re

from onward.testing.messages_api.literal_json import Object, canonical, dumps

_BYTES_PER_TOKEN = 4
_IMAGE_TOKENS = 1_600
_IMAGE = re.compile(r'"data":"[A-Za-z0-9+/=]*","media_type":"image/')
"""An image in canonical text, which sorts the keys."""


def tokens(text: str) -> int:
    """Return the estimated tokens of `text`, at least 1."""
    return max(1, len(text.encode()) // _BYTES_PER_TOKEN)


def estimate(body: Object, message: Object) -> Object:
    """Return the `usage` of `message` as the reply to the request `body`."""
    read, rest = _prompt_tokens(body)
    cached = '"cache_control":{' in dumps(body)
    written = rest if cached else 0
    return {
        "input_tokens": 0 if cached else read + rest,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read if cached else 0,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens(dumps(message["content"])),
        "service_tier": "standard",
    }


def prompt_tokens(body: Object) -> int:
    """Return the estimated tokens of a request's tools, system prompt and messages."""
    return sum(_prompt_tokens(body))


def _prompt_tokens(body: Object) -> tuple[int, int]:
    """Return the tokens before the last assistant turn and those from there on."""
    messages: list[Object] = body["messages"]
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    head = canonical({"tools": body.get("tools"), "system": body.get("system")})
    if not turns:
        return 0, _seen(head + canonical(messages))
    last = turns[-1]
    return _seen(head + canonical(messages[:last])), _seen(canonical(messages[last:]))


def _seen(text: str) -> int:
    """Return the tokens of canonical JSON text, images in it included."""
    bare, images = _IMAGE.subn("", text)
    return tokens(bare) + _IMAGE_TOKENS * images
