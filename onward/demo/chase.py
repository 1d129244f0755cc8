"""One run with its kills, watched: what both versions of the demo have in common."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from onward.demo.killer import Killer, Prey, Struck
from onward.demo.outside import ClaudeRequests
from onward.demo.stage import Stage

DEADLINE_S = 240.0
"""Beyond that the run is given up, and the audit says what is missing. It takes 20 to 40 seconds;
the rest is for machines that are busy with something else."""
_REFRESH_S = 0.1


@dataclass
class Snapshot:
    """What there is to see of a run at this moment."""

    title: str
    steps: int
    finished: int = 0
    saying: str = "starting the servers"
    requests: int = 0
    kills: int = 0
    struck: list[Struck] = field(default_factory=list[Struck])
    resumed_s: list[float | None] = field(default_factory=list[float | None])
    """For each kill, from it to the next request; None: not yet."""
    cost_usd: Decimal | None = None
    ui_url: str | None = None


class View(Protocol):
    """Shows snapshots while the run goes on."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the newest."""
        ...


class Chase:
    """Runs a prey to its end while the killer hunts it."""

    def __init__(self, stage: Stage, prey: Prey, view: View, snapshot: Snapshot) -> None:
        self._requests, self._payments = stage.requests(), stage.seen_payments()
        self._prey, self._view, self.snapshot = prey, view, snapshot
        self.trouble: list[str] = []
        """Why the hunt or the run did not come to its end."""
        self.killer = Killer(
            stage.script.kills, prey, stage.requests(), stage.seen_payments(), self._killed
        )

    async def run(self, ended: Callable[[], bool], tell: Callable[[Snapshot], None]) -> None:
        """Hunt until `ended`; `tell` fills in what only the version at hand knows.

        Returns also when time is up, when the hunt fails, and when the last process has died: then
        the audit has something to say.
        """
        hunt = asyncio.create_task(self.killer.hunt())
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not ended() and not self._lost(hunt):
                    self._look(tell)
                    await asyncio.sleep(_REFRESH_S)
        except TimeoutError:
            self.trouble.append(f"the run was given up after {DEADLINE_S} s")
        finally:
            hunt.cancel()
            self._explain(*await asyncio.gather(hunt, return_exceptions=True))
            self._look(tell)

    def _lost(self, hunt: asyncio.Task[None]) -> bool:
        process = self.killer.process
        alive = process is not None and process.returncode is None
        return hunt.done() and (hunt.exception() is not None or not alive)

    def _explain(self, failure: BaseException | None) -> None:
        process = self.killer.process
        if failure is not None and not isinstance(failure, asyncio.CancelledError):
            self.trouble.append(f"the hunt ended: {failure}")
        elif process is not None and process.returncode not in {None, 0}:
            self.trouble.append(
                f"the last process ended with {process.returncode}; its log: {process.tail()}"
            )

    def _look(self, tell: Callable[[Snapshot], None]) -> None:
        requests: ClaudeRequests = self._requests
        requests.look()
        self.snapshot.requests = requests.made
        self.snapshot.finished = self._prey.finished_steps()
        for index, struck in enumerate(self.snapshot.struck):
            if self.snapshot.resumed_s[index] is None:
                latest = max(requests.latest, self._payments.latest())
                self.snapshot.resumed_s[index] = latest - struck.at if latest > struck.at else None
        tell(self.snapshot)
        self._view.show(self.snapshot)

    def _killed(self, struck: Struck) -> None:
        self.snapshot.struck.append(struck)
        self.snapshot.resumed_s.append(None)
