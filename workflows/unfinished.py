"""Replies that were cut off at `max_tokens`: continued, or asked for once more with more room."""

from onward.messages import ClaudeReply, Continue
from onward.names import GO_ON_NOTICE
from onward.transcript import blocks_of

from .state import RunState

_MOST_CUTS = 3
"""In a row: a model that is cut off again and again goes round in circles."""
_RAISED = 2
"""Factor by which a redo allows more tokens; the activity keeps to what the model can."""


def asks_again(state: RunState, reply: ClaudeReply) -> bool:
    """Say whether a reply is put aside and the step asked again.

    So where Claude was cut off while it called a tool or thought: that cannot be gone on with.
    """
    if not _cut(state, reply) or _is_text(reply) or state.cuts >= _MOST_CUTS:
        return False
    if reply.lowered:
        return _waits_at_limit(state)
    # Less than was asked for: the model allows no more. 0: a worker of before 0.4 recorded it.
    return reply.max_tokens >= max(state.max_tokens, 1)


def goes_on(state: RunState, reply: ClaudeReply) -> bool:
    """Say whether Claude is told to go on where a reply, which the state has taken, was cut off."""
    if reply.lowered and not _waits_at_limit(state):
        return False
    return _cut(state, reply) and _is_text(reply) and state.cuts <= _MOST_CUTS


def room_again(state: RunState, reply: ClaudeReply) -> int:
    """Tokens that the reply may have when the step is asked again."""
    return state.max_tokens if reply.lowered else reply.max_tokens * _RAISED


def to_go_on(reply: ClaudeReply) -> Continue:
    """Make what Claude is told after a reply that was cut off."""
    return Continue(id=f"{GO_ON_NOTICE}{reply.head.step}")


def _cut(state: RunState, reply: ClaudeReply) -> bool:
    return state.keeps_rules_of(4) and reply.stop_reason == "max_tokens"


def _waits_at_limit(state: RunState) -> bool:
    return state.opening is not None and state.opening.waits_at_limit


def _is_text(reply: ClaudeReply) -> bool:
    """Say whether the reply ends in words, and calls nothing."""
    blocks = blocks_of(reply.message)
    calls = any(block.get("type") == "tool_use" for block in blocks)
    last = blocks[-1] if blocks else {}
    return not calls and last.get("type") == "text" and bool(str(last.get("text") or "").strip())
