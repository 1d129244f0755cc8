"""A step's calls: the order they run in, and the one result that each gets, whatever happens."""

import asyncio
from itertools import groupby

from temporalio.exceptions import ActivityError

from onward.messages import (
    Addition,
    ClaudeReply,
    PersonSaid,
    PreparedCall,
    ResultOf,
    ResultWritten,
)
from workflows.scheduling import run_tool
from workflows.state import RunState
from workflows.stops import kind_of, reason_of

_UNKNOWN = (
    "OUTCOME UNKNOWN: this call may or may not have happened ({why}). Do not repeat it. "
    "Find out with another tool whether it happened, or ask the person."
)


async def run_calls(state: RunState, reply: ClaudeReply) -> None:
    """Run the calls of a reply: reads beside each other, effects one by one in Claude's order."""
    results: list[Addition] = []
    numbered = enumerate(reply.calls)
    for beside, group in groupby(numbered, lambda item: item[1].effect == "read"):
        batch = [index for index, _ in group]
        state.doing = ", ".join(f"{reply.calls[i].call} {reply.calls[i].tool}" for i in batch)
        if beside:
            results += await asyncio.gather(*(_run_call(state, reply, i) for i in batch))
        else:
            results += [await _run_call(state, reply, i) for i in batch]
    state.answered(results, all_failed=all(_failed(item) for item in results))


async def _run_call(state: RunState, reply: ClaudeReply, index: int) -> Addition:
    call = reply.calls[index]
    if call.refusal is not None:
        return _written(call, call.refusal)
    if call.effect != "read" and (doubtful := _doubted(state, reply)):
        why = f"not run, because the outcome of call {doubtful} before it is unknown"
        return _written(call, f"{why}. Nothing was done. Ask again if it is still wanted.")
    try:
        result = await run_tool(state, reply, index)
    except ActivityError as error:
        return _stopped(state, call, error)
    if result.status == "in_doubt":
        return _in_doubt(state, call, result.why)
    return ResultOf(call=call.call, tool_use_id=call.tool_use_id, is_error=result.is_error)


def _stopped(state: RunState, call: PreparedCall, error: ActivityError) -> ResultWritten:
    if kind_of(error) == "cancelled":
        return _written(call, f"{call.tool} was cancelled; it only reads, so nothing was changed.")
    # Another branch's record at this position says nothing about the effect (ledger.md, 1.1).
    return _in_doubt(state, call, reason_of(error))


def _in_doubt(state: RunState, call: PreparedCall, why: str) -> ResultWritten:
    # Written from history alone: a late truth in the ledger must not change a turn's bytes.
    state.doubt(call.call)
    return _written(call, _UNKNOWN.format(why=why))


def _written(call: PreparedCall, text: str) -> ResultWritten:
    return ResultWritten(tool_use_id=call.tool_use_id, text=text)


def _doubted(state: RunState, reply: ClaudeReply) -> str | None:
    mine = {call.call for call in reply.calls}
    return next((call for call in state.in_doubt if call in mine), None)


def _failed(item: Addition) -> bool:
    return not isinstance(item, PersonSaid) and item.is_error
