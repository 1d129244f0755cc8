"""Follow a run to its end: its histories, one after another, and what Claude writes meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from temporalio.api.history.v1 import HistoryEvent

from onward import watching
from onward.connection import Connection
from onward.errors import ConnectError, NoSuchRun, UsageError
from onward.history import Ended
from onward.live.earlier import carried_steps
from onward.live.happenings import (
    Asked,
    Happening,
    Replied,
    Restarted,
    RunEnded,
    Trouble,
    Waits,
    Watched,
)
from onward.live.place import THE_END, Place
from onward.live.story import Story
from onward.live.stream import BEGINNING, Entry, LiveStream
from onward.live.telling import Telling
from onward.messages import Waiting as WaitingCall
from onward.redis_server.connection import ledger_url, redis_client
from onward.runs import Run, ended, look, rpc_errors
from onward.transcript import is_summary
from onward.watching import Look
from onward.wording import Troubles

_STEP_BY_STEP = "what Claude writes is shown when it is whole"
_LOOK_EVERY_S = 1.0
_AGAIN_S = 0.5
_GOODBYE_S = 1.0
_WAIT_MS = 1000
"""For the live stream's next entry: well below the time after which the client gives Redis up."""

Show = Callable[[Happening], None]
Told = tuple[Happening, str]
ShowAt = Callable[[Happening, str], None]
"""Takes also where it stands in history, the text of a `Place`: empty where it does not last."""


async def follow(connection: Connection, run: Run, show: Show, *, all_steps: bool = False) -> Ended:
    """Show what happens in a run until it ends; how it ended is the last thing shown.

    It begins with the current step, or with the first one if `all_steps`. A Redis that is away
    costs only the view of replies that are not whole, a Temporal that is away only time.

    Raises NoSuchRun, ConnectError.
    """
    following = Following(connection, run, lambda what, _: show(what), all_steps=all_steps)
    return await following.to_the_end()


class Following:
    """One watcher of one run."""

    def __init__(
        self, connection: Connection, run: Run, show: ShowAt, *, all_steps: bool, after: str = ""
    ) -> None:
        """Follow a run from its current step, or from the first; or on from where one had been.

        Raises UsageError where `after` is no place.
        """
        self._connection, self._client, self._run = connection, connection.client, run
        self._show_at, self._all_steps = show, all_steps
        self._after = Place.of(after) if after else None
        self._story, self._telling = Story(connection.client), Telling()
        self._heard = HistoryEvent()
        """The last event of the workflow run that was told."""
        self._troubles, self._blind = Troubles(), Troubles()
        self._known = set[tuple[str, ...]]()
        """What waits for a person, as it was told."""

    async def to_the_end(self) -> Ended:
        """Follow all sources beside each other until history has told the end."""
        goes_on = self._run.open
        await (self._go_on_after(self._after) if self._after else self._begin())
        histories = asyncio.create_task(self._histories())
        sources: list[asyncio.Task[Any]] = [histories]
        if goes_on:
            sources += map(asyncio.create_task, (self._live(), self._looks()))
        try:
            done, _ = await asyncio.wait(sources, return_when=asyncio.FIRST_COMPLETED)
            for source in done:
                source.result()  # those beside the histories end by an error alone
            return histories.result()
        finally:
            for source in sources:
                source.cancel()
            # The Redis client may lose a cancel, in Python 3.11's `wait_for`; whoever runs us
            # cancels once more.
            await asyncio.wait(sources, timeout=_GOODBYE_S)

    # ---- what lasts

    async def _begin(self) -> None:
        """Tell what has happened before, from the current step on."""
        past = await self._past(self._run)
        asked = [index for index, (each, _) in enumerate(past) if isinstance(each, Asked)]
        now = past if self._all_steps or not asked else past[asked[-1] :]
        earlier = self._story.steps - _replies(each for each, _ in now)
        carried = list[Happening]()
        if self._all_steps and earlier:
            own = {each.step for each, _ in past if isinstance(each, Asked)}
            carried = await carried_steps(self._client, self._run, own)
        self._show(Watched(self._run, earlier - _replies(carried)))
        self._tell([(each, "") for each in carried])
        self._tell(now)

    async def _go_on_after(self, place: Place) -> None:
        """Tell what has happened since then, and a reply that is not whole from its beginning."""
        past = await self._past(await self._workflow_run(place.run_id))
        since = [told for told in past if Place.of(told[1]) > place]
        before = [each for each, _ in past[: len(past) - len(since)]]
        for each in before:
            for _ in self._telling.durable(each):
                pass  # it was told
        if self._telling.asking:
            asked = [each.step for each in before if isinstance(each, Asked)]
            self._show(Restarted(asked[-1]))
        self._tell(since)

    async def _workflow_run(self, run_id: str) -> Run:
        """Describe one workflow run of this run. Raises UsageError where it has none of that id."""
        with suppress(NoSuchRun):
            found = await look(self._client, self._run.id, run_id)
            if found.first_run_id == self._run.first_run_id:
                return found
        raise UsageError(
            f"the run {self._run.id!r} has no workflow run {run_id!r}, or Temporal no longer knows "
            "it. Follow it from its beginning"
        )

    async def _past(self, run: Run) -> list[Told]:
        self._turn_to(run)
        async with rpc_errors(run.id):
            return [told async for told in self._new(wait=False)]

    def _turn_to(self, run: Run) -> None:
        self._run, self._heard = run, HistoryEvent()
        self._story.turn_to(run.run_id)

    async def _new(self, *, wait: bool) -> AsyncIterator[Told]:
        """Yield what the workflow run's history tells beyond what was heard, and where.

        With `wait`, until the workflow run has closed.
        """
        handle = self._client.get_workflow_handle(self._run.id, run_id=self._run.run_id)
        async for event in handle.fetch_history_events(wait_new_event=wait):
            if event.event_id <= self._heard.event_id:
                continue
            for part, happening in enumerate(await self._story.hear(event)):
                yield happening, str(Place(self._run.run_id, event.event_id, part))
            self._heard = event

    async def _histories(self) -> Ended:
        """Tell the histories of the run's workflow runs to the end of the last one."""
        while True:
            try:
                await self._to_the_close()
                if not await self._goes_on():
                    return await self._end()
            except ConnectError:
                await asyncio.sleep(_AGAIN_S)  # the looks say what is wrong

    async def _to_the_close(self) -> None:
        async with rpc_errors(self._run.id):
            async for told in self._new(wait=True):
                self._tell([told])

    async def _end(self) -> Ended:
        self._run = await look(self._client, self._run.id, self._run.run_id)
        how = await ended(self._client, self._run)
        if how is None:
            raise ConnectError(f"Temporal does not say yet how the run {self._run.id!r} ended")
        self._show(RunEnded(self._run, how), THE_END)
        return how

    async def _goes_on(self) -> bool:
        """Turn to the workflow run in which one that closed goes on, if there is one."""
        closed = self._heard.workflow_execution_continued_as_new_event_attributes
        if after := closed.new_execution_run_id:
            self._turn_to(await look(self._client, self._run.id, after))
            return True
        newest = await look(self._client, self._run.id)
        was_reset = newest.run_id != self._run.run_id
        if not was_reset or newest.first_run_id != self._run.first_run_id:
            return False
        self._run = newest
        self._show(Trouble("it was reset in Temporal, and goes on from an earlier step"))
        await self._begin()
        return True

    def _tell(self, told: Iterable[Told]) -> None:
        for each, place in told:
            for happening in self._telling.durable(each):
                self._show(happening, place if happening is each else "")

    def _show(self, happening: Happening, place: str = "") -> None:
        self._show_at(happening, place)

    # ---- what is there to be seen

    async def _live(self) -> None:
        async for entry in self._entries():
            for told in self._telling.live(entry):
                self._show(told)

    async def _entries(self) -> AsyncIterator[Entry]:
        """Yield what comes in the live stream, as long as there is a Redis; says where none is."""
        after = BEGINNING
        while True:
            try:
                async with self._redis() as redis:
                    stream = LiveStream(redis, self._run.id, self._run.first_key.run_id)
                    while True:
                        for entry in await stream.read(after, wait_ms=_WAIT_MS):
                            after = entry.id
                            yield entry
                        self._blind.new(())
            except (RedisError, OSError, UsageError) as error:
                for text in self._blind.new([f"{_STEP_BY_STEP}; Redis says: {error}"]):
                    self._show(Trouble(text))
                await asyncio.sleep(_AGAIN_S)

    def _redis(self) -> Redis:
        # Anew each time: an embedded server comes back at another address.
        return redis_client(ledger_url(self._connection.settings, self._connection.target))

    async def _looks(self) -> None:
        async for seen in watching.watch(self._client, self._run, every_s=_LOOK_EVERY_S):
            self._standing(seen)
        await asyncio.Event().wait()  # history tells the end

    def _standing(self, seen: Look) -> None:
        """Tell what holds the run up, and whom it waits for, where that is new."""
        for text in self._troubles.new(seen.troubles):
            self._show(Trouble(text))
        # A call that waits is told after the reply that asks for it.
        if seen.report and not self._telling.asking:
            self._waiting(seen.report.status.waiting)

    def _waiting(self, waiting: Iterable[WaitingCall]) -> None:
        known, self._known = self._known, set[tuple[str, ...]]()
        for each in waiting:
            view = (each.call, each.kind, each.view)
            self._known.add(view)
            if view not in known:
                self._show(Waits(each))


def _replies(happenings: Iterable[Happening]) -> int:
    """Count the steps among what happened that Claude answered."""
    return sum(isinstance(each, Replied) and not is_summary(each.step) for each in happenings)
