"""The lines that the Temporal UI shows of a run's events."""

from onward.messages import PreparedCall, Spend

_BYTES = 180
"""Of a label. Temporal takes 400 of its JSON, where a quote counts double."""


def bounded(label: str, most: int = _BYTES) -> str:
    """Cut a label to what Temporal takes."""
    return label.encode(errors="replace")[:most].decode(errors="ignore")


def step_told(step: str, spend: Spend) -> str:
    """Say what a step took: `step 12 · 1,204 in / 310 out · $0.012`."""
    read = spend.tokens - spend.output_tokens
    cost = "cost unknown" if spend.unpriced_requests else f"${spend.cost_usd:.3f}"
    return f"step {step} · {read:,} in / {spend.output_tokens:,} out · {cost}"


def after(what: str, told: str) -> str:
    """Say what happens, and what the step before took, whose own label was written too early."""
    return f"{what}, after {told}" if told else what


def call_told(call: PreparedCall) -> str:
    """Say what a call does: `12.1 order 1042 · $25.00 · keyed`."""
    ends = f" · {call.effect}"
    return bounded(f"{call.call} {call.summary}", _BYTES - len(ends.encode())) + ends
