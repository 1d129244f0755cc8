"""When a run ends by itself: limits and stop reasons, each with its named outcome."""

from onward.messages import ClaudeReply, Compacting, Outcome
from workflows.state import RunState

Ending = tuple[Outcome, str]
"""An outcome and the sentence that explains it."""

CONTINUES = frozenset({"tool_use", "pause_turn", "compaction"})
"""Stop reasons after which the loop goes on; the last one where settings let the API compact."""

_STEPS_AFTER_VAIN = 10
"""Before Claude is asked for a summary again that it did not make: each time costs a full window.
"""
_OVERFLOWED = "model_context_window_exceeded"

_ENDINGS: dict[str, Ending] = {
    "end_turn": ("completed", ""),
    "stop_sequence": ("completed", ""),
    "max_tokens": (
        "max_tokens",
        "Claude's reply was cut off at the agent's max_tokens, and none of its tools was run",
    ),
    "refusal": ("refused", "Claude declined to answer"),
    _OVERFLOWED: (
        "context_exceeded",
        "the conversation no longer fits the model's context window",
    ),
}


def over_limit(state: RunState) -> Ending | None:
    """Say which limit, if any, forbids another step."""
    limits, spend = state.limits, state.spend
    if state.steps >= limits.max_steps:
        return "limit_steps", f"{state.steps} of {limits.max_steps} allowed steps were done"
    if limits.max_cost_usd is not None and spend.cost_usd >= limits.max_cost_usd:
        spent = f"${spend.cost_usd:.4f} was spent, and ${limits.max_cost_usd} is allowed"
        return "limit_cost", spent
    if spend.tokens >= limits.max_tokens_total:
        used = f"{spend.tokens:,} tokens were used, and {limits.max_tokens_total:,} are allowed"
        return "limit_tokens", used
    if state.running_s >= limits.max_wall_time:
        allowed = f"{limits.max_wall_time:g} s are allowed"
        return "limit_time", f"the run worked for {state.running_s:g} s, and {allowed}"
    if state.failing >= limits.max_repeats:
        return "limit_repeats", f"in {state.failing} steps in a row every call failed"
    return None


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


def ending_of(reply: ClaudeReply) -> Ending | None:
    """Say how a reply ends the run; None if the loop goes on.

    Calls in a reply that did not stop for tool use never run (claude-api.md, section 5).
    """
    if reply.stop_reason == "tool_use" and not reply.calls:
        return "unknown_stop", "Claude stopped for tool use but named no tool"
    if reply.stop_reason in CONTINUES:
        return None
    unknown: Ending = ("unknown_stop", f"Claude stopped for {reply.stop_reason!r}, unknown here")
    return _ENDINGS.get(reply.stop_reason, unknown)
