"""A request as the model reads it: tools, system prompt, messages, block by block.

Prompt caching (https://platform.claude.com/docs/en/build-with-claude/prompt-caching) counts and
marks by these blocks.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from onward.testing.messages_api.literal_json import Object, canonical, is_array, is_object
from onward.testing.messages_api.memory import is_blank
from onward.testing.messages_api.shapes import BLOCKS
from onward.testing.messages_api.turns import blocks_of, messages_of, role_of, system_of
from onward.testing.messages_api.usage import tokens_of_json

_STARTS_OVER = ("model", "speed", "thinking", "output_config")
"""Fields without a place in the prompt, of which another value shares nothing."""


@dataclass(frozen=True)
class Prefix:
    """All of a prompt up to the end of one of its blocks."""

    digest: str
    tokens: int
    mark: Object | None
    """The `cache_control` of that block."""


def prefixes(key: str, body: Object) -> list[Prefix]:
    """Return the prefixes of a request made with `key`, the shortest first.

    Marks are no part of what is digested, so one prefix is the same wherever it is marked.
    """
    blocks = [*head_blocks(body), *_message_blocks(body)]
    automatic = _automatic(body, blocks)
    digest = hashlib.sha256(canonical([key, *map(body.get, _STARTS_OVER)]).encode())
    found, tokens = list[Prefix](), 0
    for index, (where, block) in enumerate(blocks):
        text = canonical(block)
        digest.update(f"{where}\0{text}\n".encode())
        tokens += tokens_of_json(text)
        mark = body["cache_control"] if index == automatic else block.get("cache_control")
        found.append(Prefix(digest.hexdigest(), tokens, mark))
    return found


def prompt_tokens(body: Object) -> int:
    """Return the estimated tokens of a request's tools, system prompt and messages."""
    blocks = (*head_blocks(body), *_message_blocks(body))
    return sum(tokens_of_json(canonical(block)) for _, block in blocks)


def head_blocks(body: Object) -> Iterator[tuple[str, Object]]:
    """Yield the blocks before the messages, and of what they are."""
    tools: object = body.get("tools")
    for tool in tools if is_array(tools) else ():
        yield "tools", tool
    for block in system_of(body):
        yield "system", block


def _message_blocks(body: Object) -> Iterator[tuple[str, Object]]:
    # Another tool choice keeps what is cached of tools and system prompt, and of nothing else.
    choice = canonical(body.get("tool_choice"))
    for number, message in enumerate(messages_of(body)):
        for block in blocks_of(message):
            yield f"{choice} {number} {role_of(message)}", block


def _automatic(body: Object, blocks: list[tuple[str, Object]]) -> int | None:
    """Return which block the mark of the whole body is on; None: it has none."""
    if not is_object(body.get("cache_control")):
        return None
    places = [index for index, (where, block) in enumerate(blocks) if _takes_mark(where, block)]
    return places[-1] if places else None


def _takes_mark(where: str, block: Object) -> bool:
    if where == "tools":
        return not block.get("defer_loading")
    kind = str(block.get("type"))
    return "cache_control" in BLOCKS.get(kind, ()) and not is_blank(block)
