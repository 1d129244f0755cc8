"""How a run stands, as the query `status` answers."""

from onward import json_text
from onward.messages import RunStatus, Waiting
from onward.transcript import tool_uses

from .clock import went_s
from .state import RunState

_INPUT_BYTES = 4096


def status(state: RunState, now_ms: int) -> RunStatus:
    """Answer the query `status`."""
    opening = state.opening
    return RunStatus(
        agent=state.request.agent,
        state="ended" if state.outcome else state.going,
        step=str(state.step),
        steps=state.steps,
        doing=state.doing,
        outcome=state.outcome,
        limits=state.limits if opening else None,
        price_known=opening.price_known if opening else None,
        went_s=went_s(state, now_ms),
        at_ms=now_ms,
        spend=state.spend,
        in_doubt=state.all_in_doubt,
        waiting=tuple(with_input(state, each) for each in state.waiting.shown.values()),
        paused=state.paused,
        unseen=len(state.unseen),
        tags=state.request.tags,
        model=opening.model if opening else "",
        workspace=state.request.workspace,
        context=state.context,
    )


def with_input(state: RunState, waiting: Waiting) -> Waiting:
    """Show what waits together with the arguments of its call."""
    # At each look: kept in `Waiting`, which `approve` returns, history would hold it once more.
    if waiting.kind == "limit":
        return waiting
    return waiting.model_copy(update={"input": shown_input(state, waiting.call)})


def shown_input(state: RunState, call: str) -> str:
    """Arguments with which a call of the reply runs, JSON text cut at 4 KiB with a mark."""
    if call in state.edits:
        return _bounded(state.edits[call])
    if call in state.inputs:
        return state.inputs[call]
    number = int(call.rpartition(".")[2])
    given = tool_uses(state.message)[number - 1].get("input", {})
    return _bounded(json_text.printable(json_text.dumps(given)))


def _bounded(text: str) -> str:
    whole = text.encode()
    kept = whole[:_INPUT_BYTES].decode(errors="ignore")
    return text if kept == text else f"{kept}… (cut: it has {len(whole):,} bytes)"
