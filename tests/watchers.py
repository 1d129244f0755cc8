"""Somebody who watches a run in a test, and remembers what they were told."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_runs import Run

from onward.connection import Target
from onward.console import Output
from onward.history import Ended
from onward.live.documents import document
from onward.live.following import follow
from onward.live.fragments import What
from onward.live.happenings import Happening, Restarted, Wrote
from onward.runs import describe
from onward.session import Session
from onward.settings import Settings
from onward.testing import wait_until

Kind = TypeVar("Kind")


@dataclass
class Watcher:
    """What one watcher was told."""

    told: list[Happening] = field(default_factory=list[Happening])
    watching: asyncio.Task[Ended] | None = None

    def of(self, kind: type[Kind]) -> list[Kind]:
        """What was told of one kind."""
        return [each for each in self.told if isinstance(each, kind)]

    def text(self, step: str, what: What = "text") -> str:
        """What stands there of a step's reply, without what was to be dropped."""
        text = ""
        for each in self.told:
            if isinstance(each, Restarted) and each.step == step:
                text = ""
            elif isinstance(each, Wrote) and each.step == step and each.fragment.what == what:
                text += each.fragment.text
        return text

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The same as `--json` prints it."""
        return [document(each) for each in self.told]

    async def until(self, seen: Callable[["Watcher"], object], what: str) -> None:
        """Wait until `seen()` is true of what was told."""
        await wait_until(lambda: seen(self), 30, what=what)

    async def end(self) -> Ended:
        """Wait until the end was told."""
        assert self.watching is not None
        return await asyncio.wait_for(self.watching, 30)


@asynccontextmanager
async def watcher(run: Run, redis_url: str, *, all_steps: bool = False) -> AsyncGenerator[Watcher]:
    """Watch a run beside the block."""
    client = run.bench.temporal
    target = Target(client.service_client.config.target_host, client.namespace, "configured")
    session = Session(client, target, Settings(redis_url=redis_url), Output())
    mine = Watcher()
    found = await describe(client, run.name)
    following = follow(session, found, mine.told.append, all_steps=all_steps)
    mine.watching = asyncio.create_task(following)
    try:
        yield mine
    finally:
        mine.watching.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await mine.watching
