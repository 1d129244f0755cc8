"""One request to Claude's API, joined from JSON text: what was sent once is sent so again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onward import json_text
from onward.transcript import begin_with_summary

_SUMMARY_TOKENS = 8192
"""Room for a summary and the thinking before it, where a reply has less."""
_ON_DEMAND, _AT_THRESHOLD = "compact-2026-09-04", "compact-2026-01-12"
_EDITING = "context-management-2025-06-27"


@dataclass(frozen=True)
class Request:
    """What is sent, and what of it must be known before."""

    body: bytes
    model: str
    max_tokens: int
    betas: tuple[str, ...] = ()
    """Features whose fields and blocks the API refuses without a header that names them."""
    messages_at: int = 0
    """Where in `body` the messages begin; what is before them is short."""
    stream: bool = True
    """The reply is asked for as a stream of events."""

    def but(self, **fields: Any) -> "Request":
        """Make the same request with other top-level fields; its messages stay as they are."""
        head = json_text.load_object(self.body[: self.messages_at] + b"}") | fields
        joined = json_text.dumps(head)[:-1].encode()
        return replace(
            self,
            body=joined + self.body[self.messages_at :],
            max_tokens=int(head["max_tokens"]),
            messages_at=len(joined),
            stream=bool(head["stream"]),
        )


def reply_request(frozen: str, messages: Sequence[bytes]) -> Request:
    """Make the request for a reply to `messages`, JSON texts; `frozen`: all else, JSON text."""
    plain = json_text.values(frozen)
    managed: dict[str, Any] = plain.get("context_management") or {}
    edits = [str(edit.get("type")) for edit in managed.get("edits") or ()]
    needed = {
        _EDITING: bool(edits),
        _AT_THRESHOLD: any(edit.startswith("compact_") for edit in edits),
        _ON_DEMAND: begin_with_summary(messages),
    }
    head = _head(frozen)
    return Request(
        body=_joined(head, messages),
        model=str(plain["model"]),
        max_tokens=int(plain["max_tokens"]),
        betas=tuple(beta for beta, used in needed.items() if used),
        messages_at=len(head),
    )


def summary_request(frozen: str, messages: Sequence[bytes]) -> Request:
    """Make the request for a summary of `messages`, in place of a reply.

    It has the same system prompt and tools, but nothing that shapes a reply: the API refuses it.
    """
    body = json_text.load_object(frozen)
    for name in ("context_management", "stop_sequences"):
        body.pop(name, None)
    choice: dict[str, Any] = body.get("tool_choice") or {}
    if choice.get("type") in {"any", "tool"}:
        del body["tool_choice"]
    if output := body.get("output_config"):
        body["output_config"] = {k: v for k, v in output.items() if k != "format"}
    body["max_tokens"] = max(int(body["max_tokens"]), _SUMMARY_TOKENS)
    body["compaction"] = {"type": "summarize"}
    head = _head(json_text.dumps(body))
    return Request(
        body=_joined(head, messages),
        model=str(body["model"]),
        max_tokens=body["max_tokens"],
        betas=(_ON_DEMAND,),
        messages_at=len(head),
    )


def _head(frozen: str) -> bytes:
    return f'{frozen.rstrip()[:-1]},"stream":true'.encode()


def _joined(head: bytes, messages: Iterable[bytes]) -> bytes:
    parts = [part for message in messages for part in (b",", message)]
    # Joined at once: each further copy of a long conversation would cost every step.
    return b"".join((head, b',"messages":[', *parts[1:], b"]}"))
