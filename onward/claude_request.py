"""One request to Claude's API, joined from JSON text: what was sent once is sent so again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    return Request(
        body=_joined(frozen, messages),
        model=str(plain["model"]),
        max_tokens=int(plain["max_tokens"]),
        betas=tuple(beta for beta, used in needed.items() if used),
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
    joined = _joined(json_text.dumps(body), messages)
    return Request(joined, str(body["model"]), body["max_tokens"], betas=(_ON_DEMAND,))


def _joined(frozen: str, messages: Iterable[bytes]) -> bytes:
    head = f'{frozen.rstrip()[:-1]},"stream":true,"messages":['.encode()
    parts = [part for message in messages for part in (b",", message)]
    # Joined at once: each further copy of a long conversation would cost every step.
    return b"".join((head, *parts[1:], b"]}"))
