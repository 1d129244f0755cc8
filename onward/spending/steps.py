"""What each step of a run cost, as its histories tell."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from onward import history
from onward.audit.positions import order, step_number
from onward.chain import chain_before
from onward.messages import ClaudeInput, ClaudeReply, EndInput, Opening, RunResult, Spend
from onward.names import CALL_CLAUDE, END
from onward.own_history import Told, read_history
from onward.runs import Run, rpc_errors
from onward.transcript import BEGINNING

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class Steps:
    """A run's steps, those of the run that it was forked from left out."""

    spends: Mapping[str, Spend]
    """By step, in their order; `12.r1` where step 12 was asked again, `12.c1` for a summary."""
    asking: str
    """Step that Claude is being asked: nothing says yet what it costs. Empty: none."""
    nonce: str
    """Of the ledger's records, as the run's first activity found or made it."""


async def steps_of(client: Client, run: Run) -> Steps:
    """Read what each step cost.

    What a step cost that was given up is not known of workflow runs that Temporal no longer keeps.
    Raises NoSuchRun, ConnectError, and PayloadError where a part of history is lost.
    """
    ends = _Ends(client)
    async with rpc_errors(run.id):
        told = await read_history(client, run.id, run.run_id)
        async for event in _events(client, run):
            await ends.hear(event)
    replied = _replied(told)
    spends = {
        step: replied.get(step, Spend()) + ends.spends.get(step, Spend())
        for step in sorted({*replied, *ends.spends}, key=order)
    }
    nonce = told.first_witness.nonce if told.first_witness else ""
    return Steps(spends, ends.asking, nonce)


async def _events(client: Client, run: Run) -> AsyncIterator[HistoryEvent]:
    chain = await chain_before(client, run.key)
    for key in (*chain.earlier, run.key):
        handle = client.get_workflow_handle(key.id, run_id=key.run_id)
        async for event in handle.fetch_history_events():
            yield event


def _replied(told: Told) -> dict[str, Spend]:
    beginning = told.records.get(BEGINNING)
    if beginning is None or beginning.result is None:
        return {}
    copied = Opening.model_validate_json(beginning.result).copied_steps
    own = (step for step in told.turns if step in told.records and step_number(step) > copied)
    results = {step: told.records[step].result for step in own}
    return {
        step: ClaudeReply.model_validate_json(text).spend for step, text in results.items() if text
    }


class _Ends:
    """Hears what steps cost that ended without a reply."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked = dict[int, str]()
        self._closing = dict[int, EndInput]()
        self.spends = dict[str, Spend]()

    @property
    def asking(self) -> str:
        """The step whose activity has not ended; or empty."""
        return next(reversed(self._asked.values()), "")

    async def hear(self, event: HistoryEvent) -> None:
        """Take the next event."""
        match event.WhichOneof("attributes"):
            case "workflow_execution_started_event_attributes":
                # Each workflow run numbers its events anew.
                self._asked.clear()
            case "activity_task_scheduled_event_attributes":
                await self._scheduled(event)
            case "activity_task_failed_event_attributes":
                await self._failed(event)
            case "activity_task_completed_event_attributes":
                await self._completed(event)
            case _:
                pass

    async def _scheduled(self, event: HistoryEvent) -> None:
        attributes = event.activity_task_scheduled_event_attributes
        if attributes.activity_type.name == CALL_CLAUDE:
            given = await self._read(attributes.input, ClaudeInput)
            self._asked[event.event_id] = given.step
        elif attributes.activity_type.name == END:
            self._closing[event.event_id] = await self._read(attributes.input, EndInput)

    async def _failed(self, event: HistoryEvent) -> None:
        attributes = event.activity_task_failed_event_attributes
        step = self._asked.pop(attributes.scheduled_event_id, "")
        if step and (last := await history.gave_up(self._client, attributes.failure)):
            self._spent(step, last.spend)

    async def _completed(self, event: HistoryEvent) -> None:
        done = event.activity_task_completed_event_attributes
        self._asked.pop(done.scheduled_event_id, "")
        closing = self._closing.pop(done.scheduled_event_id, None)
        if closing and closing.asking:
            # What the ledger told of a step whose activity could not.
            ended = await self._read(done.result, RunResult)
            self._spent(closing.asking, ended.spend - closing.result.spend)

    def _spent(self, step: str, spend: Spend) -> None:
        self.spends[step] = self.spends.get(step, Spend()) + spend

    async def _read(self, payloads: Payloads, kind: type[_Model]) -> _Model:
        found: list[_Model] = await self._client.data_converter.decode(payloads.payloads, [kind])
        return found[0]
