"""The steps of a conversation, as the run's history tells them, verified by digest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from temporalio.client import Client

from onward import json_text, transcript
from onward.edits import EditedCall, as_run
from onward.errors import HistoryGap, LedgerGap, UsageError
from onward.invoked import typed
from onward.messages import CallResult, ClaudeReply, Opening
from onward.own_history import Told, read_history
from onward.records import Restored
from onward.runs import Run, rpc_errors
from onward.transcript import BEGINNING, Turn, is_summary

Block = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One user turn and Claude's reply to it."""

    id: str
    """`12`; where it was asked again, `12.r1`."""
    turn: Turn
    reply: ClaudeReply
    """With its calls as they ran: some as a person edited them."""
    answers: tuple[Block, ...] | None
    """The `tool_result` blocks that were sent for the reply's tool uses, in their order; None: none
    were sent yet."""

    @property
    def said(self) -> list[tuple[str, str]]:
        """What was said in the user turn, each as the message's id and its text."""
        texts = (str(b.get("text", "")) for b in _blocks(self.turn) if b.get("type") == "text")
        return list(zip(chain(self.turn.ids, repeat("")), texts, strict=False))

    @property
    def number(self) -> int:
        """How many steps there are up to this one."""
        return int(self.id.partition(".")[0])

    @property
    def tool_uses(self) -> list[dict[str, Any]]:
        """What the reply asks for."""
        return transcript.tool_uses(self.reply.message)

    @property
    def answered(self) -> bool:
        """Claude was told of all that it asked for, or asked for nothing."""
        return self.answers is not None or not self.tool_uses


@dataclass(frozen=True)
class Retelling:
    """A conversation from its beginning."""

    opening: Opening
    messages: tuple[bytes, ...]
    """As JSON texts, as they would be sent next."""
    steps: tuple[Step, ...]
    records: Mapping[str, Restored]
    """How the run's steps and calls ended, those that are not in the conversation too."""
    edits: Mapping[str, EditedCall] = field(default_factory=dict[str, EditedCall])
    """Calls that ran as a person edited them: so they stand in `steps`."""

    @property
    def count(self) -> int:
        """How many steps there are: a summary is none."""
        return sum(not is_summary(step.id) for step in self.steps)

    @property
    def last(self) -> Step:
        """The newest step that is no summary of what came before."""
        return next(step for step in reversed(self.steps) if not is_summary(step.id))

    def result(self, call: str) -> CallResult | None:
        """How a call ended; None where history has no end of it, or a doubt."""
        record = self.records.get(call)
        if record is None or record.result is None:
            return None
        return CallResult.model_validate_json(record.result)


async def retell(client: Client, run: Run) -> Retelling:
    """Read the conversation of a run from its newest history, and the segments that names.

    Raises NoSuchRun where Temporal has forgotten it, ConnectError, PayloadError, and as `retold`.
    """
    async with rpc_errors(run.id):
        return retold(run.id, await read_history(client, run.id, run.run_id))


def retold(run_id: str, told: Told) -> Retelling:
    """Rebuild the conversation of a run.

    Raises:
        UsageError: nothing has been said yet.
        HistoryGap: something is missing, or is not what was sent.

    """
    if BEGINNING not in told.records or not told.turns:
        raise UsageError(
            f"the run {run_id!r} has no conversation: Claude has not answered. "
            f"`{typed('status', run_id)}` says why"
        )
    opening = Opening.model_validate_json(told.records[BEGINNING].result or "")
    turns = {step: Turn.model_validate_json(text) for step, text in told.turns.items()}
    replies = {step: _reply(run_id, told, step) for step in turns}
    # The newest: what was asked again before it is told no more.
    head = replies[next(reversed(turns))].head
    try:
        told_whole = transcript.conversation(head, opening.frozen, replies, turns)
    except LedgerGap as gap:
        raise HistoryGap(str(gap), f"run {run_id!r}") from gap
    ids = transcript.chain(head.step, replies)
    steps = tuple(_steps(ids, replies, turns))
    return Retelling(opening, told_whole.messages, steps, told.records, told.rebuilt.edits)


def _reply(run_id: str, told: Told, step: str) -> ClaudeReply:
    record = told.records.get(step)
    if record is None or record.result is None:
        raise HistoryGap(f"found a user turn of step {step}, and no reply", f"run {run_id!r}")
    return as_run(ClaudeReply.model_validate_json(record.result), told.rebuilt.edits)


def _steps(
    ids: list[str], replies: Mapping[str, ClaudeReply], turns: Mapping[str, Turn]
) -> list[Step]:
    steps, answers = list[Step](), None
    for step in reversed(ids):
        steps.append(Step(step, turns[step], replies[step], answers))
        if not is_summary(step):  # one that was asked for in between answers nothing
            answers = _results(turns[step])
    return steps[::-1]


def _results(turn: Turn) -> tuple[Block, ...]:
    return tuple(block for block in _blocks(turn) if block.get("type") == "tool_result")


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    return json_text.loads(turn.content) if turn.content else []
