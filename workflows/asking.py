"""Ask a person about a call, and wait for what they say."""

from collections.abc import Callable

from temporalio import workflow

from onward.messages import (
    CallResult,
    ClaudeReply,
    Doubt,
    PreparedCall,
    Resolution,
    Waiting,
    WaitKind,
    Witness,
)
from onward.wording import in_words
from workflows.continuing import HistoryIsLong, may_continue
from workflows.running import now_ms
from workflows.state import RunState
from workflows.waiting import Decision


def ask_first(state: RunState, reply: ClaudeReply) -> None:
    """Show every call of the reply that needs an approval, so that a person can decide on all."""
    asking = [call for call in reply.calls if call.ask and call.refusal is None]
    state.waiting.ask(
        *(
            _waiting(call, "approval", call.ask, view=call.fingerprint[:12])
            for call in asking
            if not _was_asked(state, call.call)
        )
    )


def _was_asked(state: RunState, call: str) -> bool:
    # By the workflow run before this one, in the middle of the step.
    return call in state.results or call in state.doubts or state.waiting.known(call)


async def decision(state: RunState, call: str) -> Decision:
    """Wait until a person has decided about a call that is shown.

    Raises `HistoryIsLong` where the run is to continue as new and then to wait on.
    """
    await workflow.wait_condition(lambda: state.waiting.decided(call) or may_continue(state))
    if not state.waiting.decided(call):
        raise HistoryIsLong
    return state.waiting.take(call)


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
    """Wait until a person has settled a call in doubt. Raises `HistoryIsLong` as `decision`."""
    settled = await decision(state, call)
    del state.doubts[call]
    if not isinstance(settled, Resolution):
        raise TypeError(f"found {settled!r}; expected a doubt to be settled by a resolution")
    return settled


def _waiting(call: PreparedCall, kind: WaitKind, why: str, *, view: str) -> Waiting:
    return Waiting(
        call=call.call,
        kind=kind,
        tool=call.tool,
        summary=call.summary,
        why=why,
        view=view,
        since_ms=now_ms(),
    )
