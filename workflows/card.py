"""The card that the Temporal UI shows of a run: how it is, what it waits for, what to type."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from onward.figures import count
from onward.markdown import literal
from onward.messages import Limits, Spend, Waiting
from onward.tags import as_texts
from onward.wording import how_full, how_to_answer

from .state import RunState

_WORDS = 600
"""Letters of Claude's last words that are shown: their end, where it says what it came to."""


def card(state: RunState, run: str, prompt: str) -> str:
    """Describe the run in Markdown. `prompt` is its beginning, for a run that continued as new."""
    # Temporal shows a run's summary only until it first continues as new.
    quoted = [_quoted(prompt)] if state.segments else []
    # First what somebody came for: what the run wants of them, and what Claude said to that.
    waits = [_waits(each, run) for each in state.waiting.shown.values()]
    facts = "\n".join(f"- {name}: {value}" for name, value in _facts(state) if value)
    return "\n\n".join([*quoted, _where(state), *waits, *_words(state), facts, _acts(state, run)])


def _where(state: RunState) -> str:
    agent, word = state.request.agent, state.status_word
    if state.outcome:
        return f"**{agent}** ended as `{word}`, after {count(state.steps, 'step')}"
    doing = "" if state.waiting.shown else f": {state.doing}"
    return f"**{agent}** is `{word}` at step {state.step}{doing}"


def _facts(state: RunState) -> Iterator[tuple[str, str]]:
    yield "**paused**", _paused(state)
    yield "in doubt", ", ".join(state.in_doubt)
    yield "messages that Claude has not seen", str(len(state.unseen) or "")
    yield "spent", literal(_spent(state.spend, state.limits))
    yield "steps", _steps(state)
    yield "context window", how_full(state.context) if state.context else ""
    yield "model", state.opening.model if state.opening else ""
    yield "tags", literal(", ".join(as_texts(state.request.tags)))


def _spent(spend: Spend, limits: Limits) -> str:
    unknown = spend.unpriced_requests and not spend.cost_usd
    cost = "unknown cost" if unknown else f"${spend.cost_usd:.4f}"
    most = "" if limits.max_cost_usd is None else f" of ${limits.max_cost_usd}"
    tokens = f"{spend.tokens:,} of {limits.max_tokens_total:,} tokens"
    return f"{cost}{most}, {tokens}, in {count(spend.requests, 'request')}"


def _steps(state: RunState) -> str:
    most = state.limits
    return f"{state.steps:,} of {most.max_steps:,}, in {most.max_wall_time / 60:,.0f} min at most"


def _paused(state: RunState) -> str:
    paused = state.paused
    if paused is None or state.outcome:
        return ""
    since = f"{datetime.fromtimestamp(paused.since_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    why = f": {paused.reason}" if paused.reason else ""
    return literal(f"by {paused.by or 'somebody'} since {since}{why}")


def _waits(call: Waiting, run: str) -> str:
    if call.kind == "limit":
        return f"**The run has met a limit**: {literal(call.why)}. {how_to_answer(run, call)}"
    asked = "needs an approval" if call.kind == "approval" else "is in doubt"
    return (
        f"**{call.call} {literal(call.tool)}** {_code(call.summary)} **{asked}**: "
        f"{literal(call.why)}. {how_to_answer(run, call)}"
    )


def _code(text: str) -> str:
    # Claude's words must not end the code span, and be read as ours.
    return f"`{text.replace('`', chr(39))}`"


def _words(state: RunState) -> list[str]:
    if not state.text.strip():
        return []
    text = state.text.strip()
    shown = text if len(text) <= _WORDS else f"… {text[-_WORDS:]}"
    return ["Claude's last words:", _quoted(shown)]


def _acts(state: RunState, run: str) -> str:
    name = shlex.quote(run)
    if state.outcome:
        return f'Go on from here with `onward fork {name} --message "…"`'
    steered = "resume" if state.paused else "pause"
    acts = (f"watch {name}", f'send {name} "…"', f"{steered} {name}", f"cancel {name}")
    return "\n".join(["```", *(f"onward {act}" for act in acts), "```"])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in literal(text).splitlines())
