"""Which runs are meant: asked of Temporal's index as far as it can tell, then checked here.

The index lags, and lacks what its server was never told, so it is only asked for all runs that may
be meant. What a list shows was checked against the run's own description.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import get_args

from onward.indexed import OUTCOMES
from onward.messages import RunStatus
from onward.names import AGENT, STATUS, TAGS, WORKFLOW
from onward.runs import FAILING, Run
from onward.tags import as_texts

_GOING: tuple[str, ...] = tuple(
    state for state in get_args(RunStatus.model_fields["state"].annotation) if state != "ended"
)
_CUT_OFF = {"terminated": "Terminated", "timed_out": "TimedOut"}
STATES = (*_GOING, FAILING, *sorted(OUTCOMES), *_CUT_OFF, "reset")
"""What `Run.state` may be."""
_PLAIN = re.compile(r"[\w.=@:/+ -]+")
"""Texts that every server takes in a query; SQLite's, for one, stumbles over quotes in them."""


@dataclass(frozen=True, kw_only=True)
class Which:
    """Runs that are all this; what is not given does not matter."""

    agent: str = ""
    state: str = ""
    """`Run.state`."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """The run has all of these."""
    since: datetime | None = None
    """It began then or later."""
    going: bool = False
    """It has not ended."""

    def query(self, known: Collection[str]) -> str:
        """Ask for all runs that may be meant; `known`: search attributes that the server has."""
        every = ("ExecutionStatus != 'ContinuedAsNew'", *self._asked(known))
        return " AND ".join((f"WorkflowType = '{WORKFLOW}'", *every))

    def _asked(self, known: Collection[str]) -> Iterator[str]:
        if self.going or self.state in {*_GOING, FAILING}:
            yield "CloseTime IS NULL"
        if self.since is not None:
            # A run of before may have continued as new since then: see `means`.
            yield f"StartTime >= '{self.since.isoformat()}'"
        if self.state in _CUT_OFF:
            yield f"ExecutionStatus = '{_CUT_OFF[self.state]}'"
        if self.state in OUTCOMES and STATUS in known:
            # What was cut off before it could say how it ended says how it went.
            yield _or_unknown(STATUS, self.state, *_GOING)
        if self.agent and AGENT in known:
            yield from _if_plain(AGENT, self.agent)
        for tag in as_texts(self.tags) if TAGS in known else ():
            yield from _if_plain(TAGS, tag)

    def means(self, run: Run) -> bool:
        """Say whether the run is one of them."""
        return (
            self.agent in {"", run.agent}
            and self.state in {"", run.state}
            and self.tags.items() <= run.tags.items()
            and (self.since is None or run.started >= self.since)
            and (run.open or not self.going)
        )


def _if_plain(name: str, value: str) -> Iterator[str]:
    if _PLAIN.fullmatch(value):
        yield _or_unknown(name, value)


def _or_unknown(name: str, *values: str) -> str:
    """Ask for these values, or none: the run is older than the attribute, or was refused it."""
    wanted = ", ".join(f"'{value}'" for value in values)
    return f"({name} IN ({wanted}) OR {name} IS NULL)"
