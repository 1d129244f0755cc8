"""The card that the Temporal UI shows of a run: how it is, what it waits for, what to type."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from onward.messages import Limits, Waiting
from onward.wording import how_full, how_to_answer
from workflows.state import RunState

_WORDS = 600
"""Letters of Claude's last words that are shown: their end, where it says what it came to."""


def card(state: RunState, run: str, prompt: str) -> str:
    """Describe the run in Markdown. `prompt` is its beginning, for a run that continued as new."""
    # Temporal shows a run's summary only until it first continues as new.
    quoted = [f"{_quoted(prompt)}\n"] if state.segments else []
    facts = [f"- {name}: {value}" for name, value in _facts(state) if value]
    waits = [_waits(each, run) for each in state.waiting.shown.values()]
    ends = [*_words(state), *_acts(state, run)]
    return "\n".join([*quoted, _where(state), "", *facts, *waits, *ends])


def _where(state: RunState) -> str:
    agent, word = state.request.agent, state.status_word
    if state.outcome:
        return f"**{agent}** ended as `{word}`, after {_count(state.steps, 'step')}"
    doing = "" if state.waiting.shown else f": {state.doing}"
    return f"**{agent}** is `{word}` at step {state.step}{doing}"


def _facts(state: RunState) -> Iterator[tuple[str, str]]:
    spend = state.spend
    requests = _count(spend.requests, "request")
    yield "spent", f"${spend.cost_usd:.4f} in {requests}, {spend.tokens:,} tokens"
    yield "limits", _limits(state.limits) if state.opening else ""
    yield "context window", how_full(state.context) if state.context else ""
    yield "model", state.opening.model if state.opening else ""
    yield "tags", ", ".join(f"{name}={value}" for name, value in state.request.tags.items())
    yield "in doubt", ", ".join(state.in_doubt)
    yield "messages that Claude has not seen", str(len(state.unseen) or "")
    yield "**paused**", _paused(state)


def _limits(limits: Limits) -> str:
    cost = "" if limits.max_cost_usd is None else f"${limits.max_cost_usd}"
    steps, minutes = f"{limits.max_steps:,} steps", f"{limits.max_wall_time / 60:,.0f} min"
    tokens = f"{limits.max_tokens_total:,} tokens"
    return ", ".join(filter(None, (steps, cost, tokens, minutes)))


def _paused(state: RunState) -> str:
    paused = state.paused
    if paused is None or state.outcome:
        return ""
    since = f"{datetime.fromtimestamp(paused.since_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    why = f": {paused.reason}" if paused.reason else ""
    return f"by {paused.by or 'somebody'} since {since}{why}"


def _waits(call: Waiting, run: str) -> str:
    if call.kind == "limit":
        return f"- **waits for a person** at a limit: {call.why}. {how_to_answer(run, call)}"
    asked = "needs an approval" if call.kind == "approval" else "is in doubt"
    return (
        f"- **waits for a person**: {call.call} `{call.tool}` ({_code(call.summary)}) {asked}: "
        f"{call.why}. {how_to_answer(run, call)}"
    )


def _code(text: str) -> str:
    # Claude's words must not end the code span, and be read as ours.
    return f"`{text.replace('`', chr(39))}`"


def _words(state: RunState) -> list[str]:
    if not state.text.strip():
        return []
    text = state.text.strip()
    shown = text if len(text) <= _WORDS else f"… {text[-_WORDS:]}"
    return ["", "Claude's last words:", "", _quoted(shown)]


def _acts(state: RunState, run: str) -> list[str]:
    if state.outcome:
        fork = f'python starter.py fork {shlex.quote(run)} --message "…"'
        return ["", f"Go on from here with `{fork}`"]
    steered = "resume" if state.paused else "pause"
    acts = ("watch", "spend", "send", steered, "cancel")
    typed = [f"python starter.py {act} {shlex.quote(run)}" for act in acts]
    typed[2] += ' "…"'
    return ["", "To act:", "", *(f"- `{each}`" for each in typed)]


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
