"""The conversation, rebuilt from the ledger's records and verified by digest.

A transcript is the frozen beginning, then for each step a frozen user turn and Claude's recorded
reply, chained: every reply names the step before it, and every digest covers all that came before.
Nothing that was sent is ever changed; this module only reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onward import json_text
from onward.errors import LedgerGap
from onward.messages import (
    Addition,
    CallResult,
    ClaudeReply,
    Head,
    PersonSaid,
    ResultOf,
    ResultWritten,
    Wire,
)

BEGINNING = "0"
"""Step id of the frozen beginning."""


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


def build_turn(additions: Iterable[Addition], results: Mapping[str, CallResult]) -> Turn:
    """Resolve what a step adds to the bytes of one user turn: results first, then people.

    `results` holds what the ledger recorded, by call. Raises `LedgerGap` where one is missing.
    """
    given = list(additions)
    people = [item for item in given if isinstance(item, PersonSaid)]
    blocks = [_result_block(item, results) for item in given if not isinstance(item, PersonSaid)]
    blocks += [{"type": "text", "text": said.text} for said in people]
    content = json_text.dumps(blocks) if blocks else ""
    return Turn(content=content, ids=tuple(said.id for said in people))


def messages(
    head: Head, frozen: str, replies: Mapping[str, ClaudeReply], turns: Mapping[str, Turn]
) -> list[str]:
    """List the messages up to `head` as JSON texts, exactly as they were first sent.

    Raises `LedgerGap` if a record is missing or the digest is not the one in history.
    """
    sent: list[str] = []
    at = beginning(frozen)
    for step in _steps(head.step, replies):
        turn = turns.get(step)
        if turn is None:
            raise LedgerGap(f"found no user turn of step {step}, which history says was answered")
        at = advance(at, step, turn, replies[step].message)
        sent += [*user_message(turn), *assistant_message(replies[step].message)]
    if at.digest != head.digest:
        raise LedgerGap(
            f"found transcript digest {at.digest[:12]} at step {head.step}, "
            f"expected {head.digest[:12]} as history has it"
        )
    return sent


def user_message(turn: Turn) -> Iterator[str]:
    """Yield the user message of a turn; none where it adds nothing."""
    if turn.content:
        yield f'{{"role":"user","content":{turn.content}}}'


def assistant_message(message: str) -> Iterator[str]:
    """Yield Claude's message as it goes back: unaltered, but for text blocks without text.

    The API refuses its own empty text blocks when they come back, so they are left out from the
    first sending on. Yields nothing where nothing else is left.
    """
    content = [block for block in blocks_of(message) if not _blank(block)]
    if content:
        yield f'{{"role":"assistant","content":{json_text.dumps(content)}}}'


def last_text(message: str) -> str:
    """Claude's words in a message: its text blocks, joined."""
    return "".join(b.get("text") or "" for b in blocks_of(message) if b.get("type") == "text")


def tool_uses(message: str) -> list[dict[str, Any]]:
    """Tool uses of a message, given as JSON text, in Claude's order."""
    return [block for block in blocks_of(message) if block.get("type") == "tool_use"]


def blocks_of(message: str) -> list[dict[str, Any]]:
    """Content blocks of a message, given as JSON text."""
    blocks: list[dict[str, Any]] = json_text.load_object(message).get("content") or []
    return blocks


def _steps(last: str, replies: Mapping[str, ClaudeReply]) -> list[str]:
    chain: list[str] = []
    step = last
    while step != BEGINNING:
        if step not in replies:
            raise LedgerGap(f"found no reply of step {step}, which history says was recorded")
        if step in chain:
            raise LedgerGap(f"found step {step} twice in the chain of replies")
        chain.append(step)
        step = replies[step].prev
    return chain[::-1]


def _result_block(
    item: ResultOf | ResultWritten, results: Mapping[str, CallResult]
) -> dict[str, Any]:
    if isinstance(item, ResultWritten):
        content, is_error = item.text, item.is_error
    elif item.call in results:
        result = results[item.call]
        content, is_error = json_text.raw(result.content), result.is_error
    else:
        raise LedgerGap(f"found no result of call {item.call}, which history says was recorded")
    block = {"type": "tool_result", "tool_use_id": item.tool_use_id, "content": content}
    return {**block, "is_error": True} if is_error else block


def _blank(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()
