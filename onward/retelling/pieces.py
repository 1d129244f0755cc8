"""Who said what in a conversation, one thing after another: each result beside its call."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Literal, cast

from onward import json_text
from onward.messages import Prompt
from onward.names import FORK_NOTICE, GO_ON_NOTICE
from onward.retelling.steps import Block, Retelling, Step
from onward.transcript import blocks_of, is_summary

Kind = Literal["step", "onward", "person", "claude", "thinking", "call", "result", "error"]

_WITHOUT_ID = frozenset({"", Prompt().id})
_NO_ANSWER = "(no result was sent to Claude)"


@dataclass(frozen=True)
class Piece:
    """One thing that was said. Its words are whatever a person, Claude or a tool wrote."""

    kind: Kind
    who: str
    """A label of ours, with at most a tool's name in it, or a message's id."""
    text: str = ""


def pieces(retelling: Retelling) -> Iterator[Piece]:
    """Tell the conversation from its beginning."""
    for step in retelling.steps:
        what = ", a summary of what came before" if is_summary(step.id) else ""
        yield Piece("step", f"step {step.id}{what}")
        yield from (_said(message_id, text) for message_id, text in step.said)
        yield from _reply(retelling, step)


def _said(message_id: str, text: str) -> Piece:
    return Piece("onward" if _is_ours(message_id) else "person", speaker(message_id), text)


def speaker(message_id: str) -> str:
    """Say who said something to Claude; of a message that a person sent, its id too."""
    if _is_ours(message_id):
        return "Onward"
    return "person" if message_id in _WITHOUT_ID else f"person (message {message_id})"


def _is_ours(message_id: str) -> bool:
    return message_id == FORK_NOTICE or message_id.startswith(GO_ON_NOTICE)


def _reply(retelling: Retelling, step: Step) -> Iterator[Piece]:
    asked = _asked(retelling, step)
    for block in blocks_of(step.reply.message):
        match block.get("type"):
            case "text":
                if text := str(block.get("text") or ""):
                    yield Piece("claude", "Claude", text)
            case "thinking" | "redacted_thinking":
                yield Piece(
                    "thinking", "Claude, thinking", str(block.get("thinking") or "(hidden)")
                )
            case "tool_use":
                yield from next(asked)
            case "compaction":
                yield Piece("claude", "Claude, summing up", str(block.get("content") or ""))
            case _:
                yield Piece("claude", "Claude", shown(block))


def _asked(retelling: Retelling, step: Step) -> Iterator[tuple[Piece, Piece]]:
    """Pair each tool use with its answer, by position: ids may repeat."""
    answers = chain(step.answers or (), repeat(None))
    for number, (use, answer) in enumerate(zip(step.tool_uses, answers, strict=False), start=1):
        call = f"{step.id}.{number}"
        given = json_text.dumps(use.get("input", {}))
        asked = Piece("call", f"{call} {use.get('name', '')}", given)
        yield asked, _answer(call, answer or _unsent(retelling, call))


def _unsent(retelling: Retelling, call: str) -> Block | None:
    """Make a block of a result that history has and Claude has not heard."""
    result = retelling.result(call)
    if result is None:
        return None
    return {"content": json_text.loads(result.content), "is_error": result.is_error}


def _answer(call: str, block: Block | None) -> Piece:
    if block is None:
        return Piece("result", f"result of {call}", _NO_ANSWER)
    if block.get("is_error"):
        return Piece("error", f"error of {call}", content_text(block.get("content")))
    return Piece("result", f"result of {call}", content_text(block.get("content")))


def content_text(content: Any) -> str:
    """Show the content of a result, a string or a list of blocks, as text."""
    if isinstance(content, list):
        return "\n".join(shown(block) for block in cast("list[dict[str, Any]]", content))
    return str(content or "")


def shown(block: Mapping[str, Any]) -> str:
    """Show a content block as text; what is none is named by type and size."""
    source = block.get("source")
    if block.get("type") == "text":
        return str(block.get("text") or "")
    if isinstance(source, dict) and "data" in source:
        found = cast("dict[str, Any]", source)
        data = str(found["data"])
        size = len(data) * 3 // 4 - data[-2:].count("=")
        return f"[{block.get('type')} {found.get('media_type', '')}, {size:,} bytes]"
    return f"[{block.get('type')}] {json_text.dumps(block)}"
