"""Ask a person about a call, and wait for what they say."""

import asyncio
from collections.abc import Callable

from onward.messages import (
    Approval,
    CallResult,
    ClaudeReply,
    Denial,
    Doubt,
    PreparedCall,
    Remembered,
    Resolution,
    Waiting,
    WaitKind,
    Witness,
)
from onward.wording import UNDECIDED, in_words, nobody_answered

from .continuing import HistoryIsLong, may_continue
from .running import now_ms
from .state import RunState
from .visible_wait import visible_wait
from .waiting import Decision

NOBODY = "nobody"
"""Who decided where the time for it was over."""


def ask_first(state: RunState, reply: ClaudeReply) -> None:
    """Show every call of the reply that needs an approval, so that a person can decide on all."""
    asking = [call for call in reply.calls if call.ask and call.refusal is None]
    state.waiting.ask(
        *(
            _waiting(call, "approval", call.ask, view=call.fingerprint[:12])
            for call in asking
            if not _was_asked(state, call.call) and _remembered(call) not in state.remembered
        )
    )


def _was_asked(state: RunState, call: str) -> bool:
    # By the workflow run before this one, in the middle of the step.
    return call in state.results or call in state.doubts or state.waiting.known(call)


def remember(state: RunState, call: PreparedCall) -> None:
    """Let later calls of the run that would be asked about likewise need no approval."""
    if UNDECIDED not in call.ask:
        state.remembered = (*state.remembered, _remembered(call))


def _remembered(call: PreparedCall) -> Remembered:
    return Remembered(tool=call.tool, why=call.ask)


async def decision(state: RunState, call: str) -> Decision:
    """Wait until a person has decided about a call that is shown, or the time for it is over.

    Raises `HistoryIsLong` where the run is to continue as new and then to wait on, and
    `CancelledError` where it was to end after the step: a step that waits for people does not end.
    """
    await _wait(state, call)
    if state.waiting.decided(call):
        return state.waiting.take(call)
    if state.cancel:
        raise asyncio.CancelledError
    raise HistoryIsLong


async def _wait(state: RunState, call: str) -> None:
    def over() -> bool:
        return state.waiting.decided(call) or bool(state.cancel) or may_continue(state)

    shown = state.waiting.shown.get(call)
    left_s = (shown.expires_ms - now_ms()) / 1000 if shown and shown.expires_ms else None
    try:
        if left_s is None or left_s > 0:
            await visible_wait(state, over, _told(call, shown), left_s)
            return
    except TimeoutError:
        pass
    if shown and call in state.waiting.shown:
        state.waiting.decide(call, _by_nobody(shown))


def _told(call: str, shown: Waiting | None) -> str:
    if shown is None:  # somebody has decided already
        return call
    silence = f" (no answer: {shown.otherwise})" if shown.expires_ms else ""
    return f"{call} waits for a person{silence}: {shown.tool} {shown.summary}"


def _by_nobody(waiting: Waiting) -> Decision:
    went_s = (waiting.expires_ms - waiting.since_ms) / 1000
    if waiting.otherwise == "approve":
        return Approval(call=waiting.call, by=NOBODY)
    return Denial(call=waiting.call, by=NOBODY, why=nobody_answered(went_s))


def doubt(
    state: RunState,
    call: PreparedCall,
    witness: Witness,
    result: CallResult,
    heed_cancel: Callable[[], None],
) -> None:
    """Show a call in doubt, so that a person settles it."""
    state.doubts[call.call] = Doubt(call=call, witness=witness, at_ms=result.at_ms)
    # The cancel that made the doubt is spent: it would not end the waiting.
    heed_cancel()
    state.waiting.ask(_waiting(call, "doubt", in_words(result.why), view=str(result.at_ms)))


async def settlement(state: RunState, call: str) -> Resolution:
    """Wait until a person has settled a call in doubt. Raises as `decision`."""
    settled = await decision(state, call)
    del state.doubts[call]
    if not isinstance(settled, Resolution):
        raise TypeError(f"found {settled!r}; expected a doubt to be settled by a resolution")
    return settled


def _waiting(call: PreparedCall, kind: WaitKind, why: str, *, view: str) -> Waiting:
    since_ms = now_ms()
    expires = kind == "approval" and call.expires_s > 0
    return Waiting(
        call=call.call,
        kind=kind,
        tool=call.tool,
        summary=call.summary,
        why=why,
        view=view,
        since_ms=since_ms,
        expires_ms=since_ms + int(call.expires_s * 1000) if expires else 0,
        otherwise=call.otherwise,
    )
