"""Where a request is marked, so that the API keeps its prefix and the next step reads it for less.

The API writes its cache only at a marked block (`cache_control`), under everything up to there. It
finds what an earlier request wrote by looking back from each mark over 20 blocks at most. A run
only ever appends, so these four marks are enough:

- the last tool, and the end of the system prompt, which runs of the same agent have in common;
- the end of the request before this one, where the newest entry is: a step with more than 20 blocks
  would be too far from it otherwise;
- the end of this request, for the next one.

Marks are put on as a request is sent. What is frozen, recorded and digested never holds them, so
they may move on with every step and change their lifetime within a run.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onward import json_text
from onward.messages import CachePolicy
from onward.transcript import is_reply

Lifetime = Literal["5m", "1h"]
"""How long after its last use an entry is kept; one of an hour costs more to write."""

MAX_MARKS = 4
"""The API refuses a request with more."""
_MARKABLE = frozenset(
    {
        *("text", "image", "document", "search_result", "tool_use", "tool_result", "compaction"),
        *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "mcp_tool_use"),
        *("code_execution_tool_result", "bash_code_execution_tool_result", "mcp_tool_result"),
        *("text_editor_code_execution_tool_result", "tool_search_tool_result"),
    }
)
"""Block types that take a mark. Thinking takes none, and a type that is not known is left alone."""
_CONTENT = re.compile(r'\{"role":"\w+","content":\[(?=\{)')
# Only to see where a block ends and of what type it is: numbers are of no interest, and Python
# refuses to make one of more than 4,300 digits.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


@dataclass(frozen=True)
class MessageMarks:
    """What is left to mark in a request whose tools and system prompt are marked."""

    lifetime: Lifetime | None = None
    """None: no message is marked."""
    last_request: bool = False
    this_request: bool = False


NO_MARKS = MessageMarks()


def lifetime_of(policy: CachePolicy, *, long_cache: bool) -> Lifetime | None:
    """Say how long a run's prefix is kept; None: it is not cached.

    `long_cache`: the run's steps may lie further apart than five minutes.
    """
    match policy:
        case "off":
            return None
        case "auto":
            return "1h" if long_cache else "5m"
        case _:
            return policy


def mark_head(
    body: dict[str, Any], lifetime: Lifetime | None
) -> tuple[dict[str, Any], MessageMarks]:
    """Mark tools and system prompt of a request's body; say how its messages are to be marked.

    Marks that the agent's author set stay as they are. They count among the four, and a place that
    has one gets none of ours.
    """
    if lifetime is None:
        return body, NO_MARKS
    theirs = _authors_marks(body)
    # An hour after five minutes is refused, so before and after the author's marks ours go by them.
    before, after = (theirs[0], theirs[-1]) if theirs else (lifetime, lifetime)
    room = MAX_MARKS - len(theirs)
    messages = _message_marks(after, room, automatic=bool(body.get("cache_control")))
    room -= messages.this_request + messages.last_request
    marked = dict(body)
    if room > 0 and (system := _marked(_system(body), after)):
        marked["system"], room = system, room - 1
    if room > 0 and (tools := _marked(body.get("tools") or [], before)):
        marked["tools"] = tools
    return marked, messages


def mark_messages(messages: Sequence[bytes], marks: MessageMarks) -> Sequence[bytes]:
    """Mark messages, JSON texts: nothing else of them changes, to the byte."""
    if marks.lifetime is None:
        return messages
    marked, mark = [*messages], f',"cache_control":{json_text.dumps(_mark(marks.lifetime))}'
    if marks.this_request:
        _mark_end(marked, messages, len(messages), mark)
    if marks.last_request:
        _mark_end(marked, messages, _end_of_last_request(messages), mark)
    return marked


def _message_marks(lifetime: Lifetime, room: int, *, automatic: bool) -> MessageMarks:
    # An author's mark of the whole body is where ours at the end of the request would be.
    return MessageMarks(
        lifetime=lifetime,
        last_request=room > (0 if automatic else 1),
        this_request=room > 0 and not automatic,
    )


def _authors_marks(body: dict[str, Any]) -> list[Lifetime]:
    """Lifetimes of the marks that are there already, in the order in which the API reads them."""
    holders = [*(body.get("tools") or ()), *_system(body), body]
    found = [holder.get("cache_control") for holder in holders]
    return ["1h" if mark.get("ttl") == "1h" else "5m" for mark in found if mark]


def _system(body: dict[str, Any]) -> list[dict[str, Any]]:
    # The API reads a system prompt given as a string as the one block of text that it stands for.
    system: str | list[dict[str, Any]] = body.get("system") or []
    return [{"type": "text", "text": system}] if isinstance(system, str) else system


def _marked(blocks: Sequence[dict[str, Any]], lifetime: Lifetime) -> list[dict[str, Any]]:
    """Mark the last of the blocks that takes a mark; return none if one of them has one already."""
    places = [place for place, block in enumerate(blocks) if _takes_mark(block)]
    if not places or any(block.get("cache_control") for block in blocks):
        return []
    marked = {**blocks[places[-1]], "cache_control": _mark(lifetime)}
    return [*blocks[: places[-1]], marked, *blocks[places[-1] + 1 :]]


def _takes_mark(block: dict[str, Any]) -> bool:
    """Say whether the API takes a mark on a block of the system prompt, or on a tool."""
    # A deferred tool is in no prefix: marked, it is refused.
    return not block.get("defer_loading") and (block.get("type") != "text" or _has_content(block))


def _mark(lifetime: Lifetime) -> dict[str, str]:
    # Five minutes are the default, and a gateway may not know the field that says so.
    return {"type": "ephemeral"} if lifetime == "5m" else {"type": "ephemeral", "ttl": lifetime}


def _end_of_last_request(messages: Sequence[bytes]) -> int:
    """Count the messages of the request before this one: all before Claude's last."""
    replies = (n for n in range(len(messages), 0, -1) if is_reply(messages[n - 1]))
    return next(replies, 1) - 1


def _mark_end(marked: list[bytes], messages: Sequence[bytes], end: int, mark: str) -> None:
    """Mark the last block before message number `end` that takes a mark."""
    for place in range(end - 1, -1, -1):
        text = messages[place].decode()
        if braces := [closes for block, closes in _blocks(text) if _is_markable(block)]:
            marked[place] = (text[: braces[-1]] + mark + text[braces[-1] :]).encode()
            return


def _blocks(message: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each block of a message, and where its closing brace is."""
    opened = _CONTENT.match(message)
    at = opened.end() if opened else 0
    while at and message[at - 1] in "[,":
        block, end = _DECODER.raw_decode(message, at)
        yield block, end - 1
        at = end + 1


def _is_markable(block: dict[str, Any]) -> bool:
    kind = block.get("type")
    return kind in _MARKABLE and (kind not in ("text", "compaction") or _has_content(block))


def _has_content(block: dict[str, Any]) -> bool:
    return bool(str(block.get("text") or block.get("content") or "").strip())
