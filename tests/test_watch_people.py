"""What people say to a run, as it is told to those who watch: each thing once, if it was taken."""

from collections.abc import Sequence
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import ASKED, Bench, Run, app_of, says, uses
from audited import by_call
from people import say, send, waiting
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from watchers import watcher

from onward import tool
from onward.live.happenings import (
    CallEnded,
    Decided,
    Happening,
    Messaged,
    Paused,
    Resumed,
    Stopping,
)
from onward.live.story import Story
from onward.messages import (
    Carried,
    Head,
    Limits,
    Message,
    Opening,
    Otherwise,
    RunRequest,
    Sent,
    Witness,
)
from onward.messages import Paused as PausedRun
from onward.testing import wait_until

CANCELS: list[tuple[Sequence[Any], Happening]] = [
    ((), Stopping()),
    (("wrong order",), Stopping("wrong order")),
    (({"reason": "r", "by": "ops", "after_step": True},), Stopping("r", "ops", after_step=True)),
    ((42,), Stopping()),
    (({"reason": []},), Stopping()),
]
PEOPLE = (Decided, Messaged, Paused, Resumed, Stopping)
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
    first, other = Message(text="also B", id="m-1", by="ops"), Message(text="no name")
    await histories.begins()
    await histories.send(first, "u-1")
    await histories.send(first, "u-2")
    await histories.send(Message(text="too late", id="m-3"), "u-3", refused="the run has ended")
    await histories.send(other, "u-4")
    await histories.begins(carried(messages=("m-1", "u-4"), answers={"u-4": "{}"}))
    await histories.send(first, "u-5")
    await histories.send(other, "u-4")
    assert histories.told == [Messaged("m-1", "also B", "ops"), Messaged("u-4", "no name", "")]


async def test_a_pause_is_told_once(histories: Histories) -> None:
    """Whoever comes late is told that the run is paused; a pause of a paused run is no news."""
    await histories.begins(carried(paused=PausedRun(since_ms=1, reason="incident", by="ops")))
    await histories.signal("pause", {"reason": "again"})
    await histories.begins(carried(paused=PausedRun(since_ms=1, reason="incident", by="ops")))
    await histories.signal("resume", {"by": "desk"})
    await histories.signal("resume")
    assert histories.told == [Paused("incident", "ops"), Resumed("", "desk")]


@pytest.mark.parametrize(("payload", "told"), CANCELS)
async def test_whatever_the_payload_a_cancel_is_told(
    histories: Histories, payload: Sequence[Any], told: Happening
) -> None:
    """The signal cancels with any payload, as people type it into Temporal's UI."""
    await histories.begins()
    await histories.signal("cancel", *payload)
    assert histories.told == [told]


# ---- whole runs


@tool(effect="keyed", ask="always")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def steered(bench: Bench) -> Run:
    """Start a run whose first step waits for three approvals; people say all there is to say."""
    pays = [("pay", {"cents": cents}) for cents in (5, 6, 7)]
    ends = says("Well. " * 20, chunk_delay_s=0.3)
    run = await bench.start(uses(*pays), uses(("pay", {"cents": 8})), ends)
    await waiting(run, 3)
    await run.handle.signal("pause", {"reason": "lunch", "by": "ops"})
    await send(run, "also check B", id="m-1")
    await say(run, "approve", "1.1", edit='{"cents":\n3}')
    await say(run, "approve", "1.2", remember=True)
    await say(run, "deny", "1.3", why="too much")
    await run.handle.signal("resume", {"by": "desk"})
    await wait_until(lambda: len(run.requests) > 2, 30, what="the third request")
    await run.handle.signal("cancel", {"reason": "wrong order", "by": "ops"})
    return run


async def test_what_people_say_is_told_accounted_for_and_retold(
    bench: Bench, redis_url: str, cli: Cli
) -> None:
    """Who said what, with their reasons: to those who watch, in the audit, in the transcript."""
    async with bench.worker(app_of(pay), **ASKED):
        run = await steered(bench)
        async with watcher(run, redis_url, all_steps=True) as seen:
            await run.ended()
            await seen.end()
    told = [each for each in seen.told if isinstance(each, PEOPLE)]
    by = "operator@desk"
    assert told == [
        Paused("lunch", "ops"),
        Messaged("m-1", "also check B", by),
        Decided("approved", "1.1", by, '{"cents":\n3}', '{"cents":5}'),
        Decided("approved", "1.2", by, remember=True),
        Decided("denied (too much)", "1.3", by),
        Resumed("", "desk"),
        Stopping("wrong order", "ops"),
    ]
    shown = (await cli("watch", run.name, "--all")).out
    assert f'1.1 approved by {by}, with another input:\n  {{"cents":\n  3}}\n  instead of' in shown
    assert "person (message m-1) by" in shown
    assert "person (message m-1), as above" in shown
    assert "asked to stop by ops: wrong order" in shown
    await check_audit(cli, run)
    assert "person (message m-1)\n  also check B" in (await cli("transcript", run.name)).out


async def check_audit(cli: Cli, run: Run) -> None:
    rows = by_call((await cli("audit", run.name, "--verify", "--json")).json)
    edited, remembers, denied, remembered = (rows[call] for call in ("1.1", "1.2", "1.3", "2.1"))
    assert (edited["asked_for"], edited["summary"]) == ("cents=5", "cents=3")
    assert edited["decisions"][0]["edit"] == '{"cents":\n3}'
    assert remembers["decisions"][0]["remember"]
    assert (denied["outcome"], denied["why"]) == ("denied", "too much")
    assert remembered["decisions"][0]["said"] == "together with 1.2"
    shown = (await cli("audit", run.name)).out
    assert "Claude asked for  cents=5" in shown
    assert 'with another input: {"cents": 3}' in shown
    assert "by operator@desk, as their client claimed, and those like it" in shown


@pytest.mark.parametrize("otherwise", ["approve", "deny"])
async def test_what_nobody_decided_in_time_is_told(
    bench: Bench, redis_url: str, cli: Cli, otherwise: Otherwise
) -> None:
    """That it counts as decided, and that nobody said so."""
    app = app_of(pay, ask_timeout_s=0.5, at_ask_timeout=otherwise)
    async with bench.worker(app, **ASKED):
        run = await bench.start(uses(("pay", {"cents": 5})), says())
        async with watcher(run, redis_url) as seen:
            await run.ended()
            await seen.end()
    (decision,) = by_call((await cli("audit", run.name, "--json")).json)["1.1"]["decisions"]
    assert (decision["expired"], decision["by_as_claimed"]) == (True, "")
    assert "because nobody had decided in time" in (await cli("audit", run.name)).out
    (ended,) = seen.of(CallEnded)
    if otherwise == "approve":
        (told,) = seen.of(Decided)
        assert (told.what, told.call) == ("approved, for nobody had decided in time", "1.1")
        assert ended.text == "paid 5"
    else:
        assert "Nobody answered within 0.5 s" in ended.text
