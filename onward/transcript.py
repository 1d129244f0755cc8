"""The conversation, rebuilt from the ledger's records and verified by digest.

A transcript is the frozen beginning, then for each step a frozen user turn and Claude's recorded
reply, chained: every reply names the step before it, and every digest covers all that came before.
Nothing that was sent is ever changed; this module only reads.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onward import json_text
from onward.errors import LedgerGap
from onward.messages import (
    Addition,
    CallResult,
    ClaudeReply,
    Continue,
    Head,
    PersonSaid,
    Prompt,
    ResultOf,
    ResultWritten,
    Wire,
)

BEGINNING = "0"
"""Step id of the frozen beginning."""
_GO_ON = (
    "Your last message was cut off at its limit of tokens. Go on exactly where it ended, without "
    "saying any of it again."
)
_SUMMARY = re.compile(r"\d+\.c\d+")
_ASSISTANT = b'{"role":"assistant",'
_COMPACTION = b'"type":"compaction"'


class Turn(Wire):
    """One user turn, frozen before Claude is asked."""

    content: str
    """JSON text of the list of content blocks; empty where a step adds nothing."""
    ids: tuple[str, ...] = ()
    """Ids of the people's messages in it."""


def beginning(frozen: str) -> Head:
    """Head of a transcript that holds only the frozen beginning."""
    return Head(step=BEGINNING, digest=json_text.sha256(frozen))


def advance(head: Head, step: str, turn: Turn, message: str) -> Head:
    """Head after `step` answered `turn` with `message` (JSON text)."""
    return Head(step=step, digest=json_text.sha256(head.digest, turn.content, message))


def build_turn(
    additions: Iterable[Addition], results: Mapping[str, CallResult], prompt: str = ""
) -> Turn:
    """Resolve what a step adds to the bytes of one user turn: results first, then people.

    `results` holds what the ledger recorded, by call; `prompt` is the run's, from its start event,
    and needed only where a `Prompt` is among the additions. Raises `LedgerGap` where a result is
    missing.
    """
    people, blocks = list[dict[str, Any]](), list[dict[str, Any]]()
    ids = list[str]()
    for item in additions:
        if isinstance(item, PersonSaid | Prompt | Continue):
            text = _words(item, prompt)
            people.append({"type": "text", "text": text})
            ids.append(item.id)
        else:
            blocks.append(_result_block(item, results))
    told = [*blocks, *people]
    return Turn(content=json_text.dumps(told) if told else "", ids=tuple(ids))


@dataclass(frozen=True)
class Conversation:
    """The messages up to a head, as the JSON texts that are sent.

    Never encoded again: the body of the next request is joined from these very bytes.
    """

    beginning: Head
    head: Head
    messages: tuple[bytes, ...] = ()
    size_bytes: int = 0
    container: str = ""
    """Id of the container that Claude's code ran in last."""

    def after(self, step: str, turn: Turn, message: str) -> "Conversation":
        """Add a step's user turn and Claude's reply to it, JSON text."""
        return _joined(self, [(step, turn, message)])


def conversation(
    head: Head, frozen: str, replies: Mapping[str, ClaudeReply], turns: Mapping[str, Turn]
) -> Conversation:
    """Rebuild the conversation up to `head`, exactly as it was first sent.

    Raises `LedgerGap` if a record is missing or the digest is not the one in history.
    """
    start = beginning(frozen)
    steps = chain(head.step, replies)
    if missing := next((step for step in steps if step not in turns), None):
        raise LedgerGap(f"found no user turn of step {missing}, which history says was answered")
    said = ((step, turns[step], replies[step].message) for step in steps)
    rebuilt = _joined(Conversation(start, start), said)
    if rebuilt.head.digest != head.digest:
        raise LedgerGap(
            f"found transcript digest {rebuilt.head.digest[:12]} at step {head.step}, "
            f"expected {head.digest[:12]} as history has it"
        )
    return rebuilt


def _joined(earlier: Conversation, steps: Iterable[tuple[str, Turn, str]]) -> Conversation:
    head, messages, container = earlier.head, [*earlier.messages], earlier.container
    for step, turn, message in steps:
        head = advance(head, step, turn, message)
        container = _container(message) or container
        kept = parted(messages)[1] if is_summary(step) else []
        messages = [] if is_summary(step) else messages
        sent = (*user_message(turn), *assistant_message(message))
        messages += [*(text.encode() for text in sent), *kept]
    size_bytes = sum(map(len, messages))
    return Conversation(earlier.beginning, head, tuple(messages), size_bytes, container)


def chain(last: str, replies: Mapping[str, ClaudeReply]) -> list[str]:
    """Name the steps up to the last one, oldest first. Raises `LedgerGap` where one is missing."""
    steps: list[str] = []
    step = last
    while step != BEGINNING:
        if step not in replies:
            raise LedgerGap(f"found no reply of step {step}, which history says was recorded")
        if step in steps:
            raise LedgerGap(f"found step {step} twice in the chain of replies")
        steps.append(step)
        step = replies[step].prev
    return steps[::-1]


def is_summary(step: str) -> bool:
    """Say whether a step is a summary, `12.c1`: it stands in place of what came before it."""
    return _SUMMARY.fullmatch(step) is not None


def is_reply(message: bytes) -> bool:
    """Say whether a message, JSON text, is one of Claude's."""
    return message.startswith(_ASSISTANT)


def begin_with_summary(messages: Sequence[bytes]) -> bool:
    """Say whether messages begin with a summary: nothing else of Claude's can stand first."""
    return bool(messages) and is_reply(messages[0])


def hold_summary(messages: Sequence[bytes]) -> bool:
    """Say whether a message of Claude's holds a summary: also one that the API made by itself."""
    return any(is_reply(m) and _COMPACTION in m for m in messages)


def parted(messages: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Part messages into those that a summary replaces, and Claude's last reply, which stays.

    The first part is what Claude was asked last. Only what follows a summary of exactly that may
    stay: thinking in it is bound to what it followed. And a call must not lose its result.
    """
    end = len(messages)
    while end and is_reply(messages[end - 1]):
        end -= 1
    return list(messages[:end]), list(messages[end:])


def user_message(turn: Turn) -> Iterator[str]:
    """Yield the user message of a turn; none where it adds nothing."""
    if turn.content:
        yield f'{{"role":"user","content":{turn.content}}}'


def assistant_message(message: str) -> Iterator[str]:
    """Yield Claude's message as it goes back: unaltered, but for text blocks without text.

    The API refuses its own empty text blocks when they come back, so they are left out from the
    first sending on. Yields nothing where nothing else is left, and where Claude declined: what it
    had begun to say is not to be used, and would make it decline again.
    """
    content = [block for block in blocks_of(message) if not _blank(block)]
    if content and not _declined(message):
        yield f'{{"role":"assistant","content":{json_text.dumps(content)}}}'


def last_text(message: str) -> str:
    """Claude's words in a message: its text blocks, joined, as text that can be told on."""
    texts = (b.get("text") or "" for b in blocks_of(message) if b.get("type") == "text")
    # With half of an emoji in it the result could not be written, and the run would be lost.
    return json_text.encodable("".join(texts))


def tool_uses(message: str) -> list[dict[str, Any]]:
    """Tool uses of a message, given as JSON text, in Claude's order; none where it declined."""
    blocks = [] if _declined(message) else blocks_of(message)
    return [block for block in blocks if block.get("type") == "tool_use"]


def results_only(message: str) -> bool:
    """Say whether the API takes nothing but results after a message, given as JSON text.

    So where it paused Claude's turn, or a tool of its own waits for a result: one that calls ours
    from Claude's code, for instance. A person's words are refused there.
    """
    whole = json_text.load_object(message)
    if whole.get("stop_reason") != "tool_use":
        return whole.get("stop_reason") == "pause_turn"
    blocks: list[dict[str, Any]] = whole.get("content") or []
    answered = {block.get("tool_use_id") for block in blocks}
    return any(name and name not in answered for name in map(_of_the_api, blocks))


def blocks_of(message: str) -> list[dict[str, Any]]:
    """Content blocks of a message, given as JSON text."""
    blocks: list[dict[str, Any]] = json_text.load_object(message).get("content") or []
    return blocks


def _of_the_api(block: dict[str, Any]) -> str:
    """Id of the use of the API's own tool that a block is, or is a call from; empty: neither."""
    if block.get("type") == "server_tool_use":
        return str(block.get("id") or "")
    caller: Any = block.get("caller") or {}
    return str(caller.get("tool_id") or "") if block.get("type") == "tool_use" else ""


def _words(item: PersonSaid | Prompt | Continue, prompt: str) -> str:
    if isinstance(item, PersonSaid):
        return item.text
    return prompt if isinstance(item, Prompt) else _GO_ON


def _result_block(
    item: ResultOf | ResultWritten, results: Mapping[str, CallResult]
) -> dict[str, Any]:
    if isinstance(item, ResultWritten):
        content, is_error = item.text, item.is_error
    elif item.call in results:
        result = results[item.call]
        content, is_error = _noted(item.note, result.content), result.is_error
    else:
        raise LedgerGap(f"found no result of call {item.call}, which history says was recorded")
    block = {"type": "tool_result", "tool_use_id": item.tool_use_id, "content": content}
    return {**block, "is_error": True} if is_error else block


def _noted(note: str, content: str) -> Any:
    """Put a note before the content of a result, JSON text."""
    if not note:
        return json_text.raw(content)
    told = json_text.loads(content)
    if isinstance(told, str):
        # The API refuses an empty text block.
        told = [{"type": "text", "text": told}] if told else []
    return [{"type": "text", "text": note}, *told]


def _declined(message: str) -> bool:
    return bool(json_text.load_object(message).get("stop_reason") == "refusal")


def _container(message: str) -> str:
    if '"container"' not in message:  # nearly always: reading it once more would cost every step
        return ""
    named: dict[str, Any] = json_text.load_object(message).get("container") or {}
    return str(named.get("id") or "")


def _blank(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()
