"""A step's calls: the order they run in, and the one result that each gets, whatever happens."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import groupby
from typing import Any

from temporalio.exceptions import ActivityError

from onward.messages import (
    Addition,
    CallResult,
    ClaudeReply,
    Denial,
    PreparedCall,
    ResultOf,
    ResultWritten,
)
from onward.wording import edited_note, outcome_unknown

from .asking import NOBODY, ask_first, decision, doubt, settlement
from .continuing import HistoryIsLong
from .scheduling import run_tool
from .state import RunState
from .stops import reason_of


async def run_calls(state: RunState, heed_cancel: Callable[[], None]) -> None:
    """Run the calls of the reply: reads beside each other, effects one by one in Claude's order.

    `heed_cancel` raises once the run is cancelled: before each call, because a call that ends in
    its own way as the cancel arrives swallows it, and the next effect must not start. Raises
    `HistoryIsLong` where the run is to continue as new; then it is called again for the rest.
    """
    reply = asked(state)
    ask_first(state, reply)
    open_calls = [i for i, call in enumerate(reply.calls) if call.call not in state.results]
    for beside, group in groupby(open_calls, lambda index: reply.calls[index].effect == "read"):
        batch = [*group]
        state.doing = ", ".join(f"{reply.calls[i].call} {reply.calls[i].tool}" for i in batch)
        if beside:
            await _beside([_run_call(state, i, heed_cancel) for i in batch])
            continue
        for index in batch:
            await _run_call(state, index, heed_cancel)
    heed_cancel()
    state.answered(asked(state))


def asked(state: RunState) -> ClaudeReply:
    """Return the reply whose calls are under way, with its calls as people edited them."""
    if state.reply is None:
        raise ValueError("found no reply; expected one whose calls are to be run")
    return state.reply


async def _beside(calls: list[Coroutine[Any, Any, None]]) -> None:
    ended = await asyncio.gather(*calls, return_exceptions=True)
    errors = [error for error in ended if error is not None]
    # Raised last: a call that a person let run as another one found history long runs to its end,
    # and a cancel that it meets there is not forgotten.
    for error in sorted(errors, key=lambda each: isinstance(each, HistoryIsLong)):
        raise error


async def _run_call(state: RunState, index: int, heed_cancel: Callable[[], None]) -> None:
    name = asked(state).calls[index].call
    state.results[name] = await _answer(state, index, heed_cancel)


async def _answer(state: RunState, index: int, heed_cancel: Callable[[], None]) -> Addition:
    heed_cancel()
    if (refusal := await _refusal(state, index)) is not None:
        return _written(state, asked(state).calls[index], refusal)
    call = asked(state).calls[index]  # as a person approved it
    try:
        result = await _result(state, index, heed_cancel)
    except ActivityError as error:
        return _stopped(state, call, error)
    except asyncio.CancelledError:
        # One that comes in the same workflow task as the call's result makes the SDK drop that.
        if call.effect != "read" and call.call not in state.all_in_doubt:
            state.doubt(call.call)
        raise
    if result.status == "in_doubt":
        return _in_doubt(state, call, result.why)
    return ResultOf(
        call=call.call,
        tool_use_id=call.tool_use_id,
        is_error=result.is_error,
        fingerprint=call.fingerprint,
        note=_note(state, call),
    )


async def _refusal(state: RunState, index: int) -> str | None:
    """Say why a call is not run; waits where a person must say it."""
    reply = asked(state)
    call = reply.calls[index]
    if call.refusal is not None:
        return call.refusal
    if call.effect != "read" and (doubtful := _doubted(state, reply)):
        why = f"not run, because the outcome of call {doubtful} before it is unknown"
        return f"{why}. Nothing was done. Ask again if it is still wanted."
    if call.call not in state.doubts and state.waiting.known(call.call):
        said = await decision(state, call.call)
        if isinstance(said, Denial):
            return _denied(said)
    return None


def _denied(said: Denial) -> str:
    if said.by == NOBODY:
        return f"This call needed an approval. {said.why} Nothing was done."
    return f"A person denied this call. {said.why}".strip()


async def _result(state: RunState, index: int, heed_cancel: Callable[[], None]) -> CallResult:
    """Run a call to a result that needs no person any more; raises `ActivityError`."""
    reply = asked(state)
    call = reply.calls[index]
    if index < len(reply.results) and (read := reply.results[index]):
        state.ran(read)  # in the step's own activity, which counts the request's time only
        return read
    while True:
        if call.call not in state.doubts:
            result = await run_tool(state, reply, index)
            state.ran(result)
            if result.status != "in_doubt" or call.in_doubt == "model":
                return result
            doubt(state, call, reply.witness, result, heed_cancel)
        settled = await settlement(state, call.call)
        if settled.result is not None:
            return settled.result


def _stopped(state: RunState, call: PreparedCall, error: ActivityError) -> ResultWritten:
    if call.effect == "read":
        why = reason_of(error)
        only = f"Not run to its end ({why}). It only reads: nothing was changed."
        return _written(state, call, only)
    # Another branch's record at this position says nothing about the effect: a late refill may have
    # put it where the record of an attempt that fired was wiped.
    return _in_doubt(state, call, reason_of(error))


def _in_doubt(state: RunState, call: PreparedCall, why: str) -> ResultWritten:
    # Written from history alone: a late truth in the ledger must not change a turn's bytes.
    state.doubt(call.call)
    return _written(state, call, outcome_unknown(why))


def _written(state: RunState, call: PreparedCall, text: str) -> ResultWritten:
    told = "\n\n".join(filter(None, (_note(state, call), text)))
    return ResultWritten(tool_use_id=call.tool_use_id, text=told)


def _note(state: RunState, call: PreparedCall) -> str:
    edit = state.edits.get(call.call)
    return edited_note(edit) if edit else ""


def _doubted(state: RunState, reply: ClaudeReply) -> str | None:
    mine = {call.call for call in reply.calls}
    return next((call for call in state.in_doubt if call in mine), None)
