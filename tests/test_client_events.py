"""What happens in a run, event by event, for code; and going on where one had been."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from agent_runs import ASKED, Bench, Run, app_of, says, uses

import onward.client
from onward import tool
from onward.client import Client, Event, NoSuchRun, UsageError


@tool(effect="read")
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


APP = app_of(look)
STEPS = [uses(("look", {"n": n})) for n in (1, 2, 3, 4)]


@pytest_asyncio.fixture(loop_scope="session")
async def client(bench: Bench) -> Client:
    assert bench
    return await onward.client.connect()


async def collected(events: AsyncGenerator[Event, None]) -> list[Event]:
    async with asyncio.timeout(30):
        return [event async for event in events]


async def read_until(events: AsyncGenerator[Event, None], kind: str, **fields: Any) -> list[Event]:
    """Read as far as an event of that kind, and go away, as a browser whose network is gone."""
    found = list[Event]()
    async with asyncio.timeout(30), aclosing(events):
        async for event in events:
            found.append(event)
            told = event.document
            if told["kind"] == kind and fields.items() <= told.items():
                return found
    raise AssertionError(f"no {kind} {fields} among {kinds(found)}")


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.document["kind"] for event in events]


def lasting(events: Sequence[Event]) -> list[str]:
    return [event.id for event in events if event.id]


async def ended(bench: Bench, **options: Any) -> Run:
    return await bench.run(APP, *STEPS, says("The end."), **options)


async def test_every_event_of_a_run_comes_in_order_to_its_end(bench: Bench, client: Client) -> None:
    """The same as `watch --all --json` tells, and nothing after the end."""
    run = await ended(bench)
    told = await collected(client.attach(run.name).events(all_steps=True))
    assert [each for each in kinds(told) if each != "piece"] == [
        "run",
        *["step", "reply", "result"] * 4,
        *["step", "reply", "end"],
    ]
    assert (told[-1].id, told[-1].document["outcome"]) == ("end", "completed")
    assert await collected(client.attach(run.name).events(after="end")) == []


async def test_who_comes_back_hears_the_rest_and_nothing_twice(
    bench: Bench, client: Client
) -> None:
    """Wherever it broke off, also across continue-as-new, all that lasts is told exactly once."""
    async with replace(bench, history_events=15).worker(APP):
        begun = await bench.start(*STEPS, says("The end."))
        handle = client.attach(begun.name)
        whole = await collected(handle.events(all_steps=True))
    assert len(await begun.chain()) > 1
    places = lasting(whole)
    for number, place in enumerate(places[:-1]):
        rest = await collected(handle.events(after=place))
        assert lasting(rest) == places[number + 1 :]


async def test_a_reply_that_is_being_written_is_told_from_its_beginning(
    bench: Bench, client: Client
) -> None:
    """Pieces do not last: who comes back in mid-reply drops what there was, and hears it all."""
    words = "One two three four five. " * 8
    async with bench.worker(APP, **ASKED):
        run = await bench.start(says(words, chunk_chars=10, chunk_delay_s=0.05))
        handle = client.attach(run.name)
        seen = await read_until(handle.events(), "piece")
        rest = await collected(handle.events(after=lasting(seen)[-1]))
    assert kinds(rest)[0] == "restarted"
    pieces = [each.document for each in rest if each.document["kind"] == "piece"]
    assert "".join(piece["text"] for piece in pieces if piece["what"] == "text") == words


async def test_events_of_what_is_not_there_are_refused(bench: Bench, client: Client) -> None:
    """No such run, no such event, an event of another run: said at once."""
    run, other = await ended(bench), await ended(bench)
    theirs = lasting(await collected(client.attach(other.name).events()))[0]
    with pytest.raises(NoSuchRun):
        await collected(client.attach("no-such-run").events())
    with pytest.raises(UsageError, match="not the id of an event"):
        await collected(client.attach(run.name).events(after="yesterday"))
    with pytest.raises(UsageError, match="has no workflow run"):
        await collected(client.attach(run.name).events(after=theirs))
