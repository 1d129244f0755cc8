"""What a person may set for a run: its limits, its folder, its end."""

from decimal import Decimal
from typing import Annotated, Any, cast

from pydantic import AliasChoices, Field, ValidationInfo, model_validator

from onward.messages.base import Wire

# Histories of before 0.4 hold the former names.
_TOKENS = AliasChoices("max_tokens_total", "max_tokens")
_TIME = AliasChoices("max_wall_time", "max_time_s")
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limits(Wire):
    """When a run ends by itself; every limit is finite. Each has its own outcome, `limit_…`."""

    max_steps: Annotated[int, Field(gt=0)] = 100
    """Claude requests that count as steps of the conversation."""
    max_cost_usd: Annotated[Decimal, Field(gt=0)] | None = Decimal(5)
    """US dollars, the tokens of lost attempts included. None: no such limit, which a model of
    unknown price needs."""
    max_tokens_total: Annotated[int, Field(gt=0, validation_alias=_TOKENS)] = 20_000_000
    """Tokens of all kinds, input and output, over the whole run."""
    max_output_tokens: Annotated[int, Field(gt=0)] = 4_000_000
    """Tokens that Claude writes, over the whole run."""
    max_wall_time: Annotated[_Seconds, Field(validation_alias=_TIME)] = 3600.0
    """Seconds since the run was begun; waiting for people is left out."""
    max_repeats: Annotated[int, Field(gt=0)] = 5
    """Steps in a row that ask for the very same calls, and all of those fail."""
    max_requests_per_step: Annotated[int, Field(gt=0)] = 100
    """Requests sent for one step before the run gives up on it: an outage of more than an hour.
    Replies that were lost on their way cost money, so of those far fewer are allowed."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any, info: ValidationInfo) -> Any:
        # From the wire, a name that is not known is a newer release's; in code, a slip of the pen
        # that would leave a run without the limit that was meant.
        if info.mode == "python" and isinstance(given, dict):
            names = set(cast("dict[str, Any]", given))
            if odd := names - {*cls.model_fields, "max_tokens", "max_time_s"}:
                raise ValueError(f"found {', '.join(sorted(odd))}; there is no limit of that name")
        return cast("Any", given)


class LimitOverrides(Wire):
    """Limits that a person sets instead of the agent's own; None: as they are."""

    max_steps: Annotated[int, Field(gt=0)] | None = None
    max_cost_usd: Annotated[Decimal, Field(gt=0)] | None = None
    unlimited_cost: bool = False
    """No limit in money: for a model whose price is not known."""
    max_tokens_total: Annotated[int | None, Field(gt=0, validation_alias=_TOKENS)] = None
    max_output_tokens: Annotated[int, Field(gt=0)] | None = None
    max_wall_time: Annotated[_Seconds | None, Field(validation_alias=_TIME)] = None
    max_repeats: Annotated[int, Field(gt=0)] | None = None

    def of(self, limits: Limits) -> Limits:
        """Return the limits with what is set here in their place."""
        chosen = self.model_dump(include={*Limits.model_fields}, exclude_none=True)
        cost = {"max_cost_usd": None} if self.unlimited_cost else {}
        return Limits.model_validate(limits.model_dump() | chosen | cost)


class Workspace(Wire):
    """A folder on some host. The id in its marker file tells it from another of the same path."""

    path: str
    """Absolute."""
    id: str
    """Content of `.onward/workspace.json` in that folder."""


class CancelRequest(Wire):
    """Payload of the signal `cancel`; an empty signal works too."""

    reason: str = ""
    after_step: bool = False
    """Let the step under way end first, unless it waits for people."""
    by: str = ""
    """Who says so, as their client claims."""


class PauseRequest(Wire):
    """Payload of the signals `pause` and `resume`; an empty signal works too."""

    reason: str = ""
    by: str = ""
    """Who says so, as their client claims."""
