"""What every activity of a worker shares: built once, at its start."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from anthropic import AsyncAnthropic
from redis.asyncio import Redis
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from onward.agents import App
from onward.claude import account
from onward.ledger import Ledger
from onward.messages import RunRef
from onward.models.api import ModelsAPI
from onward.rate_limits import RateLimits
from onward.rates import Rates
from onward.search_attributes import look

from .transcripts import Transcripts

_LOOK_EVERY_S = 60.0


@dataclass
class Services:
    """Clients and settings of one worker process."""

    app: App
    redis: Redis
    anthropic: AsyncAnthropic
    temporal: Client
    takeover_s: float
    """Seconds without a heartbeat after which another worker takes a step over."""
    strict: bool = False
    """The ledger's server keeps every acknowledged write (docs/guarantees.md): found when the
    worker starts, after its activities were made."""
    history_events: int = 1000
    """Events of one workflow run's history after which a run continues as new."""
    search_attributes: bool = False
    """Runs that begin here are told to set the search attributes that the namespace has then."""
    rate_caps: Mapping[str, Rates] = field(default_factory=dict[str, Rates])
    """What a person allows where the API would allow more, by pool of models."""
    transcripts: Transcripts = field(default_factory=Transcripts)
    known_attributes: tuple[str, ...] = ()
    """Search attributes as they were seen last; none: at no time, or there were none."""
    _look_again_s: float = 0.0
    """By the monotonic clock."""

    @cached_property
    def rate_limits(self) -> RateLimits:
        """What all workers share that ask Claude's API with this one's key."""
        return RateLimits(self.redis, account(self.anthropic), self.rate_caps)

    @cached_property
    def models(self) -> ModelsAPI:
        """What the API says of models."""
        return ModelsAPI(self.anthropic)

    async def attributes(self) -> tuple[str, ...]:
        """Search attributes that a run may set which begins now, as of a minute ago at most."""
        # A Temporal with its index in SQL keeps two files open for each look, for many minutes.
        if self.search_attributes and time.monotonic() >= self._look_again_s:
            # A look that fails for a moment must not hide a run from `list --waiting` for its life.
            with suppress(RPCError):
                self.known_attributes = (await look(self.temporal)).usable
                self._look_again_s = time.monotonic() + _LOOK_EVERY_S
        return self.known_attributes

    def ledger(self, run: RunRef) -> Ledger:
        """Make the ledger of one run."""
        return Ledger(self.redis, run, strict=self.strict)


def reset_lineage(run: RunRef) -> bool:
    """Say whether the run, or this very attempt, stems from a workflow reset.

    A reset runs a pending activity again with its first input, which knows of no reset.
    """
    here = activity.info().workflow_run_id
    return run.has_lineage or run.run_id != here
