"""Input of the workflow, and of the activities that begin a run."""

from pydantic import Field

from onward.messages.base import Wire
from onward.messages.carried import Carried
from onward.messages.identity import RunRef, Witness
from onward.messages.request import LimitOverrides, Workspace


class Fork(Wire):
    """Where a new run begins: at a copy of another run's conversation."""

    workflow_id: str
    run_id: str
    """The run whose history tells it."""
    first_run_id: str
    step: int | None = None
    """The last step that is copied; None: all of them."""


class RunRequest(Wire):
    """Input of the workflow `agent`: what `onward start` asks for, or a run that goes on."""

    prompt: str
    """Empty where `carried` holds the conversation. Of a fork: what a person says next; empty:
    nothing, Claude is only told the results that it has not heard yet."""
    agent: str
    model: str | None = None
    """None: the agent's own."""
    workspace: Workspace | None = None
    limits: LimitOverrides = LimitOverrides()
    tags: dict[str, str] = Field(default_factory=dict)
    """What people find the run by."""
    deployment: str = ""
    """Goes into every idempotency key; frozen here so that no deploy changes a running run's.
    Empty: the namespace's name."""
    carried: Carried | None = None
    """What the run knew when it continued as new; None: it begins here."""
    fork: Fork | None = None


class BeginInput(Wire):
    """Input of `begin`."""

    run: RunRef
    request: RunRequest
    witness: Witness | None = None
    """The one that the run already had, if any."""


class ForkInput(Wire):
    """Input of `fork`, which takes the place of `begin`; its result is a `Carried`."""

    run: RunRef
    request: RunRequest
    """Without the prompt; it had one if `has_prompt`."""
    has_prompt: bool
    witness: Witness | None = None
