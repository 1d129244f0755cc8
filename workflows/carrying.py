"""What a run carries over when it continues as new, and how it is taken up again."""

from onward.messages import Approval, Carried, Denial, HalfStep, Prompt, Resolution, RunRequest

from .standing import shown_input
from .state import RunState
from .waiting import Decision

_FRESH = frozenset({"segments", "reset_lineage", "opening"})
"""Fields of the same name in `Carried` that are not just handed on."""
_CARRIED = _FRESH | {
    "witness", "head", "additions", "steps", "text", "spend", "running_s", "failing", "in_doubt",
    "context", "vain_summary", "raised", "began_ms", "people_s", "repeated", "pauses", "cuts",
    "unfinished", "redos", "summaries", "max_tokens", "longest_gap_s", "paused", "remembered",
    "notified", "results_only",
}  # fmt: skip
"""Fields of the same name in `Carried`."""


def state_of(request: RunRequest) -> RunState:
    """State of a run that has just been asked for, or goes on from another workflow run."""
    state = RunState(request, additions=(Prompt(),))
    if request.carried:
        resume(state, request.carried)
    return state


def resume(state: RunState, carried: Carried) -> None:
    """Take over what another workflow run knew."""
    for name in _CARRIED:
        setattr(state, name, getattr(carried, name))
    state.doubts = dict(carried.doubts)
    if half := carried.half:
        state.reply, state.results = half.reply, dict(half.results)
        state.inputs, state.edits = half.inputs, dict(half.edits)
    state.heard.resume(carried.answers, carried.messages)
    decided: dict[str, Decision] = {**carried.approved, **carried.denied, **carried.settled}
    state.waiting.resume(carried.waiting, decided)


def go_on_from(state: RunState, copied: Carried) -> None:
    """Take over what `fork` copied; what people said to this run meanwhile stays."""
    said = (each for each in state.unseen if each.id not in copied.messages)
    stays = {
        "additions": (*copied.additions, *said),
        "messages": (*copied.messages, *state.heard.messages),
        "paused": state.paused,
    }
    resume(state, copied.model_copy(update=stays))


def carry(state: RunState, segment: str, *, reset_lineage: bool) -> Carried:
    """Return what the next workflow run of the chain must know; `segment` holds the rest."""
    if state.opening is None or state.witness is None or state.head is None:
        raise ValueError("found no opening; expected a run that has begun")
    waiting = state.waiting
    return Carried(
        **{name: getattr(state, name) for name in _CARRIED - _FRESH},
        segments=(*state.segments, segment),
        reset_lineage=reset_lineage,
        opening=state.opening.model_copy(update={"frozen": ""}),
        doubts=state.doubts,
        waiting=tuple(waiting.shown.values()),
        approved=waiting.of_kind(Approval),
        denied=waiting.of_kind(Denial),
        settled=waiting.of_kind(Resolution),
        half=_half(state),
        answers=state.heard.answers,
        messages=tuple(state.heard.messages),
    )


def _half(state: RunState) -> HalfStep | None:
    if state.reply is None:
        return None
    bare = state.reply.model_copy(update={"message": "", "turn": "", "results": ()})
    unanswered = [call.call for call in state.reply.calls if call.call not in state.results]
    inputs = {call: shown_input(state, call) for call in unanswered}
    return HalfStep(reply=bare, results=state.results, inputs=inputs, edits=state.edits)
