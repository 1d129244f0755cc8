"""One request to Claude's API, joined from JSON text: what was sent once is sent so again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from onward import json_text
from onward.betas import AT_THRESHOLD, SUMMARY, betas_of
from onward.caching import Lifetime, MessageMarks, mark_head, mark_messages
from onward.messages import Outcome
from onward.transcript import begin_with_summary, hold_summary

_SUMMARY_TOKENS = 8192
"""Room for a summary and the thinking before it, where a reply has less."""


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
    lowered: Outcome | None = None
    """The run's limit for whose sake `max_tokens` is less than it was to be."""

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

    def in_container(self, container: str) -> "Request":
        """Make the same request, so that Claude's code goes on in the container it ran in last.

        The API refuses results of calls that such code waits for without it. A container that the
        agent names itself stays.
        """
        head = json_text.load_object(self.body[: self.messages_at] + b"}")
        own: str | dict[str, Any] = head.get("container") or {}
        if isinstance(own, str) or own.get("id"):
            return self
        return self.but(container={**own, "id": container} if own else container)


@dataclass(frozen=True)
class _Head:
    """All of a request but its messages."""

    text: bytes
    model: str
    max_tokens: int
    betas: tuple[str, ...]
    marks: MessageMarks


def reply_request(
    frozen: str,
    messages: Sequence[bytes],
    betas: Iterable[str] = (),
    lifetime: Lifetime | None = None,
) -> Request:
    """Make the request for a reply to `messages`, JSON texts; `frozen`: all else, JSON text.

    `betas`: what to name in its header beside what it needs. `lifetime`: how long the API keeps its
    prefix; None: it is not cached.
    """
    return _request(_reply_head(frozen, lifetime), messages, betas)


def summary_request(
    frozen: str,
    messages: Sequence[bytes],
    betas: Iterable[str] = (),
    lifetime: Lifetime | None = None,
) -> Request:
    """Make the request for a summary of `messages`, in place of a reply.

    It has the same system prompt and tools, but nothing that shapes a reply: the API refuses it.
    """
    return _request(_summary_head(frozen, lifetime), messages, betas)


# All steps of a run have their head in common, and with its tools it may be long.
@lru_cache(maxsize=64)
def _reply_head(frozen: str, lifetime: Lifetime | None) -> _Head:
    return _head(json_text.load_object(frozen), lifetime)


@lru_cache(maxsize=64)
def _summary_head(frozen: str, lifetime: Lifetime | None) -> _Head:
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
    return _head(body, lifetime)


def _head(body: dict[str, Any], lifetime: Lifetime | None) -> _Head:
    marked, marks = mark_head(body | {"stream": True}, lifetime)
    return _Head(
        text=json_text.dumps(marked)[:-1].encode(),
        model=str(body["model"]),
        max_tokens=int(body["max_tokens"]),
        betas=tuple(betas_of(body)),
        marks=marks,
    )


def _request(head: _Head, messages: Sequence[bytes], betas: Iterable[str]) -> Request:
    summed_up = (AT_THRESHOLD,) if hold_summary(messages) else ()
    if begin_with_summary(messages):
        summed_up = (SUMMARY,)
    return Request(
        body=_joined(head.text, mark_messages(messages, head.marks)),
        model=head.model,
        max_tokens=head.max_tokens,
        betas=tuple(dict.fromkeys((*betas, *head.betas, *summed_up))),
        messages_at=len(head.text),
    )


def _joined(head: bytes, messages: Iterable[bytes]) -> bytes:
    parts = [part for message in messages for part in (b",", message)]
    # Joined at once: each further copy of a long conversation would cost every step.
    return b"".join((head, b',"messages":[', *parts[1:], b"]}"))
