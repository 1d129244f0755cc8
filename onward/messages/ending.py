"""Repair of the ledger, the end of a run, and how it stands meanwhile."""

from typing import Literal

from pydantic import Field

from onward.messages.base import Outcome, Wire
from onward.messages.identity import Head, RunRef, Witness
from onward.messages.people import Doubt, Paused, Waiting
from onward.messages.request import Limits, Workspace
from onward.messages.spend import Spend
from onward.messages.step import ContextUse, PersonSaid


class RefillInput(Wire):
    """Input of `refill`: rebuild the run's records in Redis from its own history."""

    run: RunRef
    witness: Witness
    head: Head | None = None
    """The end of the conversation that must come out whole; None: of a worker of before 0.3."""


class Refilled(Wire):
    """Result of `refill`."""

    records: int
    witness: Witness


class RunResult(Wire):
    """Result of a run, for whatever reason it ended."""

    outcome: Outcome
    text: str = ""
    """Claude's last words; partial where the run did not complete."""
    detail: str = ""
    """Why it ended, in one sentence, where the outcome alone does not say it."""
    steps: int = 0
    in_doubt: tuple[str, ...] = ()
    """Calls whose effect may or may not have happened."""
    unseen: tuple[PersonSaid, ...] = ()
    """Messages that people sent, and Claude never saw: the run ended first."""
    spend: Spend = Spend()


class EndInput(Wire):
    """Input of `end`, the last activity of every run: its records may expire from now on."""

    run: RunRef
    result: RunResult
    asking: str = ""
    """Step whose `call_claude` ended without a word on its spend: what the ledger knows counts."""
    doubts: tuple[Doubt, ...] = ()
    """Calls that a cancel cut off, which the ledger may know more of than the workflow."""


class RunStatus(Wire):
    """Answer of the query `status`."""

    agent: str
    state: Literal["running", "waiting", "paused", "cancelling", "ended"]
    """`waiting`: for a person, about a call or a limit. `paused`: a person stopped it for now, and
    its step may still be under way: `doing` says so."""
    step: str
    doing: str
    """What happens right now, in words: `asking Claude`, `12.1 refund`."""
    outcome: Outcome | None = None
    limits: Limits | None = None
    """None until the run has begun."""
    price_known: bool | None = None
    """False: the model's price is not known, so the run has no limit in money."""
    steps: int = 0
    """Steps that are done, as `max_steps` counts them."""
    went_s: float = 0.0
    """Seconds of `max_wall_time` that were gone by `at_ms`."""
    at_ms: int = 0
    """When anything happened in the run last, Unix ms; 0: not known."""
    spend: Spend = Spend()
    in_doubt: tuple[str, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    """Calls that wait for a person."""
    paused: Paused | None = None
    unseen: int = 0
    """Messages of people that Claude has not seen yet."""
    tags: dict[str, str] = Field(default_factory=dict)
    model: str = ""
    """Empty until the run has begun."""
    workspace: Workspace | None = None
    context: ContextUse | None = None
    """None until Claude has answered once."""
