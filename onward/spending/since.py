"""What many runs cost, by agent and model: all that began since some moment, or have a tag."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from onward import reports
from onward.errors import NoSuchRun, PayloadError, UsageError
from onward.listing import Which, find
from onward.messages import Spend, Tally
from onward.reports import Spent
from onward.runs import Run
from onward.session import Session
from onward.spending.branches import Beyond, beyond
from onward.spending.tables import cells, with_other

_AGO = re.compile(r"(?P<count>\d{1,6})(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AT_ONCE = 8
"""Runs asked about at the same time."""


def moment(text: str, now: datetime | None = None) -> datetime:
    """Read `7d`, `12h`, `30m`, `2w` ago, or a date with or without a time, local where it says not.

    Raises UsageError for what is neither, and for a moment that is yet to come.
    """
    now = now or datetime.now(UTC)
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
        found = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--since is {text!r}; expected 30m, 12h, 7d or 2w, or a date such as 2026-11-01"
        ) from error
    if found > now:
        raise UsageError(f"--since is {text!r}, which is yet to come")
    return found


@dataclass
class Sum:
    """What many runs cost."""

    which: Which
    runs: int = 0
    partial: int = 0
    """Of those, the ones that may have cost more: they go on, were cut off or reset, or cannot be
    read."""
    spend: Spend = field(default_factory=Spend)
    agents: dict[str, dict[str, Tally]] = field(default_factory=dict[str, dict[str, Tally]])
    """By agent and model."""

    def add(self, run: Run, spent: Spent) -> None:
        """Take what a run cost."""
        self.runs += 1
        self.partial += not spent.complete
        self.spend += spent.spend
        models = self.agents.setdefault(run.agent, {})
        for model, tally in with_other(spent.spend.models, spent.spend.total).items():
            models[model] = models.get(model, Tally()) + tally

    def rows(self) -> list[tuple[str, ...]]:
        """Make a row for each agent and model."""
        return [
            (agent, model, *cells(tally))
            for agent, models in sorted(self.agents.items())
            for model, tally in models.items()
        ]

    def document(self) -> dict[str, Any]:
        """Describe it as `spend --json` does."""
        since = self.which.since
        return {
            **self.spend.model_dump(mode="json"),
            "since": since and since.isoformat(),
            "tags": {**self.which.tags},
            "runs": self.runs,
            "partial_runs": self.partial,
            "agents": {
                agent: {model: tally.model_dump(mode="json") for model, tally in models.items()}
                for agent, models in self.agents.items()
            },
        }


async def summed(session: Session, which: Which, *, offline: bool) -> Sum:
    """Sum up the runs that are meant, each whole. Raises ConnectError."""
    found = await find(session.client, which)
    reset = {(run.id, run.started) for run in found if run.reset}
    whole, slots = Sum(which), asyncio.Semaphore(_AT_ONCE)

    async def add(run: Run) -> None:
        was_reset = (run.id, run.started) in reset
        async with slots:
            with suppress(NoSuchRun):  # forgotten just now
                whole.add(run, await _spent(session, run, was_reset=was_reset, offline=offline))

    await asyncio.gather(*(add(run) for run in found if not run.reset))
    return whole


async def _spent(session: Session, run: Run, *, was_reset: bool, offline: bool) -> Spent:
    # By history alone: a worker that does not answer would cost seconds, with each of its runs.
    try:
        spent = await reports.spend(session.client, run, offline=True)
    except PayloadError:  # one lost file must not hide what all other runs cost
        spent = Spent(Spend(), complete=False)
    if not was_reset:
        return spent
    more = Beyond(missing="not asked") if offline else await beyond(session, run)
    return Spent(spent.spend + more.spend, complete=spent.complete and not more.missing)
