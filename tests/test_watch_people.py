"""What people say to a run, as it is told to those who watch: each thing once, if it was taken."""

from collections.abc import Sequence
from typing import Any

import pytest
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from onward.live.happenings import Happening, Messaged, Paused, Resumed, Stopping
from onward.live.story import Story
from onward.messages import (
    Carried,
    Head,
    Limits,
    Message,
    Opening,
    RunRequest,
    Sent,
    Witness,
)
from onward.messages import Paused as PausedRun

WITNESS = Witness(nonce="n", inc="i", run_id="r")
OPENING = Opening(
    frozen="",
    effects={},
    limits=Limits(),
    witness=WITNESS,
    head=Head(step="1", digest="d"),
    takeover_s=1,
)


class Histories:
    """Makes histories of one run, event by event, and hears what is told of them."""

    def __init__(self, client: Client) -> None:
        self._converter, self._story = client.data_converter, Story(client)
        self.told: list[Happening] = []

    async def begins(self, carried: Carried | None = None) -> None:
        """Let a workflow run begin."""
        event = HistoryEvent(event_id=1)
        request = RunRequest(prompt="Go.", agent="tester", carried=carried)
        given = await self._payloads(request)
        event.workflow_execution_started_event_attributes.input.CopyFrom(given)
        await self._hear(event)

    async def signal(self, name: str, *payload: Any) -> None:
        """Signal the run."""
        event = HistoryEvent(event_id=2)
        signaled = event.workflow_execution_signaled_event_attributes
        signaled.signal_name = name
        signaled.input.CopyFrom(await self._payloads(*payload))
        await self._hear(event)

    async def send(self, message: Message, update_id: str, *, refused: str = "") -> None:
        """Send a message, and answer it."""
        event = HistoryEvent(event_id=3)
        accepted = event.workflow_execution_update_accepted_event_attributes.accepted_request
        accepted.meta.update_id, accepted.input.name = update_id, "send"
        accepted.input.args.CopyFrom(await self._payloads(message))
        await self._hear(event)
        event = HistoryEvent(event_id=4)
        done = event.workflow_execution_update_completed_event_attributes
        done.meta.update_id = update_id
        if refused:
            done.outcome.failure.message = refused
        else:
            sent = await self._payloads(Sent(id=message.id or update_id, unseen=1))
            done.outcome.success.CopyFrom(sent)
        await self._hear(event)

    async def _hear(self, event: HistoryEvent) -> None:
        self.told += await self._story.hear(event)

    async def _payloads(self, *values: Any) -> Payloads:
        return Payloads(payloads=await self._converter.encode(values))


@pytest.fixture
def histories(client: Client) -> Histories:
    """Make histories that are read as a command would."""
    return Histories(client)


def carried(**fields: Any) -> Carried:
    return Carried(segments=(), opening=OPENING, witness=WITNESS, head=OPENING.head, **fields)


async def test_a_message_is_told_once(histories: Histories) -> None:
    """Sent again, also to the next workflow run; what was refused is not told at all."""
    first, other = Message(text="also B", id="m-1", by="ann"), Message(text="no name")
    await histories.begins()
    await histories.send(first, "u-1")
    await histories.send(first, "u-2")
    await histories.send(Message(text="too late", id="m-3"), "u-3", refused="the run has ended")
    await histories.send(other, "u-4")
    await histories.begins(carried(messages=("m-1", "u-4"), answers={"u-4": "{}"}))
    await histories.send(first, "u-5")
    await histories.send(other, "u-4")
    assert histories.told == [Messaged("m-1", "also B", "ann"), Messaged("u-4", "no name", "")]


async def test_a_pause_is_told_once(histories: Histories) -> None:
    """Whoever comes late is told that the run is paused; a pause of a paused run is no news."""
    await histories.begins(carried(paused=PausedRun(since_ms=1, reason="incident", by="ann")))
    await histories.signal("pause", {"reason": "again"})
    await histories.begins(carried(paused=PausedRun(since_ms=1, reason="incident", by="ann")))
    await histories.signal("resume", {"by": "bob"})
    await histories.signal("resume")
    assert histories.told == [Paused("incident", "ann"), Resumed("", "bob")]


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ((), Stopping()),
        (("wrong order",), Stopping("wrong order")),
        (
            ({"reason": "r", "by": "ann", "after_step": True},),
            Stopping("r", "ann", after_step=True),
        ),
        ((42,), Stopping()),
        (({"reason": []},), Stopping()),
    ],
)
async def test_whatever_the_payload_a_cancel_is_told(
    histories: Histories, payload: Sequence[Any], told: Happening
) -> None:
    """The signal cancels with any payload, as people type it into Temporal's UI."""
    await histories.begins()
    await histories.signal("cancel", *payload)
    assert histories.told == [told]
