"""When a run ends by itself: limits and stop reasons, each with its named outcome."""

from decimal import Decimal
from typing import Any, TypeVar

from onward import json_text
from onward.messages import ClaudeReply, Compacting, Outcome, Rest
from onward.transcript import tool_uses

from .clock import went_s
from .state import RunState
from .unfinished import goes_on

N = TypeVar("N", int, Decimal)
Ending = tuple[Outcome, str]
"""An outcome and the sentence that explains it."""

CONTINUES = frozenset({"tool_use", "pause_turn", "compaction"})
"""Stop reasons after which the loop goes on; the last one where settings let the API compact."""

_STEPS_AFTER_VAIN = 10
"""Before Claude is asked for a summary again that it did not make: each time costs a full window.
"""
_LONGEST_STEP, _DEAREST_STEP_USD = 15_000_000, 1000
"""Tokens and dollars that no step can come to with all requests that may be lost for it."""
_MOST_PAUSES = 20
"""In a row. Each is ten rounds of a server tool."""
_OVERFLOWED = "model_context_window_exceeded"
_NOT_RUN = "Claude's last reply asks for tools, but did not stop for them: none of them was run"

_ENDINGS: dict[str, Ending] = {
    "end_turn": ("completed", ""),
    "stop_sequence": ("completed", ""),
    "max_tokens": (
        "max_tokens",
        "Claude's reply was cut off at its max_tokens, and none of its tools was run",
    ),
    _OVERFLOWED: (
        "context_exceeded",
        "the conversation no longer fits the model's context window",
    ),
}


def over_limit(state: RunState, now_ms: int) -> Ending | None:
    """Say which limit, if any, forbids another step."""
    limits, spend = state.limits, state.spend
    if state.steps >= limits.max_steps:
        return "limit_steps", f"{state.steps} of {limits.max_steps} allowed steps were done"
    if limits.max_cost_usd is not None and (over := _over_cost(state, limits.max_cost_usd)):
        return "limit_cost", over
    if spend.tokens >= limits.max_tokens_total:
        used = f"{spend.tokens:,} tokens were used, and {limits.max_tokens_total:,} are allowed"
        return "limit_tokens", used
    if state.keeps_rules_of(4) and spend.output_tokens >= limits.max_output_tokens:
        wrote = f"Claude wrote {spend.output_tokens:,} tokens"
        return "limit_tokens", f"{wrote}, and {limits.max_output_tokens:,} are allowed"
    return _over_time(state, now_ms) or _repeats(state)


def _over_cost(state: RunState, most_usd: Decimal) -> str:
    spend = state.spend
    if spend.cost_usd >= most_usd:
        return f"${spend.cost_usd:.4f} was spent, and ${most_usd} is allowed"
    # Of a lost request that told nothing, neither model nor tokens are known: the next one tells.
    if state.keeps_rules_of(4) and spend.unpriced_requests > spend.lost.unpriced_requests:
        names = ", ".join(name for name, told in spend.models.items() if told.unpriced_requests)
        why = f"what {names} costs is not known, so the run cannot be kept below ${most_usd}"
        return f"{why}. `--max-cost-usd none` takes that limit away"
    return ""


def _over_time(state: RunState, now_ms: int) -> Ending | None:
    went, most_s = went_s(state, now_ms), state.limits.max_wall_time
    if went < most_s:
        return None
    return "limit_time", f"the run went on for {went:,.1f} s, and {most_s:g} s are allowed"


def _repeats(state: RunState) -> Ending | None:
    if state.failing < state.limits.max_repeats:
        return None
    return "limit_repeats", f"in {state.failing} steps in a row the same calls failed"


def rest(state: RunState, now_ms: int) -> Rest | None:
    """Say what may still be spent; None where the run was begun by a worker of before 0.4."""
    if not state.keeps_rules_of(4):
        return None
    limits, spend = state.limits, state.spend
    most = limits.max_cost_usd
    return Rest(
        cost_usd=None if most is None else _near(most - spend.cost_usd, _DEAREST_STEP_USD),
        tokens=_near(limits.max_tokens_total - spend.tokens, _LONGEST_STEP),
        output_tokens=_near(limits.max_output_tokens - spend.output_tokens, _LONGEST_STEP),
        until_ms=now_ms + int((limits.max_wall_time - went_s(state, now_ms)) * 1000),
    )


def _near(left: N, step: int) -> N | None:
    """Leave out what a step cannot come near to: history holds it with every step."""
    return left if left < step else None


def may_compact(state: RunState) -> bool:
    """Say whether a summary may be asked for at all: there must be something to sum up."""
    return state.opening is not None and state.opening.compacts and state.steps > 0


def when_to_compact(state: RunState) -> Compacting:
    """Say whether the next step asks for a summary where the context window is nearly full."""
    vain = state.vain_summary
    waits = vain is not None and state.steps < vain + _STEPS_AFTER_VAIN
    return "if_full" if may_compact(state) and not waits else "never"


def overflowed(reply: ClaudeReply) -> bool:
    """Say whether a reply was cut off because the context window was full."""
    return reply.stop_reason == _OVERFLOWED


def ending_of(state: RunState, reply: ClaudeReply) -> Ending | None:
    """Say how a reply, which the state has taken, ends the run; None if the loop goes on.

    Calls in a reply that did not stop for tool use never run: it may have been cut off in them.
    """
    stopped = reply.stop_reason
    if stopped == "tool_use" and not reply.calls:
        return "unknown_stop", "Claude stopped for tool use but named no tool"
    if stopped == "refusal":
        return "refused", _refusal(reply)
    if state.keeps_rules_of(4) and state.pauses > _MOST_PAUSES:
        return "limit_repeats", f"the API paused Claude's turn {state.pauses} times in a row"
    if stopped in CONTINUES or goes_on(state, reply):
        return None
    if reply.lowered:
        return reply.lowered, "Claude's last reply was cut off where the limit was met"
    unknown: Ending = ("unknown_stop", f"Claude stopped for {stopped!r}, unknown here")
    outcome, why = _ENDINGS.get(stopped, unknown)
    # As some gateways end a reply: else nobody would know that what it asks for was not done.
    return outcome, why or (_NOT_RUN if tool_uses(reply.message) else "")


def _refusal(reply: ClaudeReply) -> str:
    details = json_text.load_object(reply.message).get("stop_details")
    told: Any = json_text.plain(details) if isinstance(details, dict) else {}
    category, why = told.get("category"), told.get("explanation")
    text = f"Claude declined to answer ({category})" if category else "Claude declined to answer"
    return json_text.encodable(f"{text}: {why}" if why else text)
