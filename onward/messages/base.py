"""What all wire types share, and the two closed lists that everything else speaks in."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

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


CachePolicy = Literal["auto", "5m", "1h", "off"]
"""How long the API keeps what a run sends again with every step; `auto`: an hour for runs that wait
longer than five minutes between steps."""


class Wire(BaseModel):
    """Base of all wire types: immutable, unknown fields of newer versions ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Terse(Wire):
    """Base of the types that every step brings: what is as the field's default is left out.

    History holds them once a step, and a run of a thousand steps carries all of it along.
    """

    @model_serializer(mode="wrap")
    def _told(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return terse(self, whole)


def terse(value: BaseModel, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
    """Serialize a value without the fields that are as their defaults; `kind` tells its type."""
    known = type(value).model_fields
    said: dict[str, Any] = whole(value)
    return {
        name: told
        for name, told in said.items()
        if name == "kind" or getattr(value, name) != known[name].default
    }
