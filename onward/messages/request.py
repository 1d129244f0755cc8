"""What a person may set for a run: its limits, its folder, its end."""

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from onward.messages.base import Wire


class Limits(Wire):
    """When a run ends by itself; every limit is finite. Each has its own outcome, `limit_…`."""

    max_steps: Annotated[int, Field(gt=0)] = 100
    """Claude requests that count as steps of the conversation."""
    max_cost_usd: Annotated[Decimal, Field(gt=0)] = Decimal(5)
    """US dollars, the tokens of lost attempts included."""
    max_tokens: Annotated[int, Field(gt=0)] = 20_000_000
    """Tokens of all kinds, input and output, over the whole run."""
    max_time_s: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds that Claude and tools work; waiting for people, workers and servers is left out."""
    max_repeats: Annotated[int, Field(gt=0)] = 10
    """Steps in a row in which every call failed."""
    max_requests_per_step: Annotated[int, Field(gt=0)] = 10
    """Requests sent for one step before the run gives up on it."""


class LimitOverrides(Wire):
    """Limits that the person who starts a run sets instead of the agent's own."""

    max_steps: Annotated[int, Field(gt=0)] | None = None
    max_cost_usd: Annotated[Decimal, Field(gt=0)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    max_time_s: Annotated[float, Field(gt=0)] | None = None


class Workspace(Wire):
    """A folder on some host. The id in its marker file tells it from another of the same path."""

    path: str
    """Absolute."""
    id: str
    """Content of `.onward/workspace.json` in that folder."""


class CancelRequest(Wire):
    """Payload of the signal `cancel`; an empty signal works too."""

    reason: str = ""
