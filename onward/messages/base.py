"""What all wire types share, and the two closed lists that everything else speaks in."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

EffectClass = Literal["read", "keyed", "transactional", "at_most_once", "sealed", "timed"]
"""What a repeated call of a tool would do; see docs/guarantees.md. Undeclared: `at_most_once`."""

Outcome = Literal[
    "completed",
    "cancelled",
    "limit_steps",
    "limit_tokens",
    "limit_cost",
    "limit_time",
    "limit_repeats",
    "refused",
    "max_tokens",
    "context_exceeded",
    "unknown_stop",
    "failed",
]
"""How a run ended. The closed list that results, search attributes, CLI and docs share."""


class Wire(BaseModel):
    """Base of all wire types: immutable, unknown fields of newer versions ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")
