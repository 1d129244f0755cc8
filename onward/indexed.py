"""What Temporal's index says of a run, which its workflow and whoever started it told it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from temporalio.api.common.v1 import SearchAttributes
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.converter import decode_typed_search_attributes

from onward.messages import Outcome
from onward.names import AGENT, COST, MODEL, STATUS, STEP, TAGS, TOKENS, WAITING
from onward.tags import as_texts

_AGENT, _MODEL = SearchAttributeKey.for_keyword(AGENT), SearchAttributeKey.for_keyword(MODEL)
_STATUS, _WAITING = SearchAttributeKey.for_keyword(STATUS), SearchAttributeKey.for_keyword(WAITING)
_STEP, _TOKENS = SearchAttributeKey.for_int(STEP), SearchAttributeKey.for_int(TOKENS)
_COST, _TAGS = SearchAttributeKey.for_float(COST), SearchAttributeKey.for_keyword_list(TAGS)
_OUTCOME = SearchAttributeKey.for_keyword("OnwardOutcome")
"""Of runs that a worker of before 0.5 began; their status is not told."""
_PROBLEMS = SearchAttributeKey.for_keyword_list("TemporalReportedProblems")
"""Temporal's own: set after some tries, taken away with the first one that goes well."""
OUTCOMES: frozenset[str] = frozenset(get_args(Outcome))


@dataclass(frozen=True)
class Indexed:
    """What the index says of a run; empty or None where it does not say."""

    status: str = ""
    """`RunStatus.state`, and at the end the outcome. Of a run that was cut off: what it was."""
    waits_for: str = ""
    """What a person is asked about first: a `WaitKind`."""
    agent: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    model: str = ""
    step: int | None = None
    """Steps that are done."""
    tokens: int | None = None
    cost_usd: float | None = None
    failing: bool = False
    """The workflow's code fails on its worker, again and again."""

    @property
    def outcome(self) -> str:
        """How the run ended, if it is known."""
        return self.status if self.status in OUTCOMES else ""


def indexed(told: SearchAttributes) -> Indexed:
    """Read a run's search attributes."""
    found = decode_typed_search_attributes(told)
    return Indexed(
        status=found.get(_STATUS) or found.get(_OUTCOME) or "",
        waits_for=found.get(_WAITING) or "",
        agent=found.get(_AGENT) or "",
        tags=dict(tag.split("=", 1) for tag in found.get(_TAGS) or () if "=" in tag),
        model=found.get(_MODEL) or "",
        step=found.get(_STEP),
        tokens=found.get(_TOKENS),
        cost_usd=found.get(_COST),
        failing="category=WorkflowTaskFailed" in (found.get(_PROBLEMS) or ()),
    )


def at_start(agent: str, tags: Mapping[str, str], known: Collection[str]) -> TypedSearchAttributes:
    """Tell the index of a run that is about to be started, before any worker has it.

    `known`: the search attributes that the server has; another one would make it refuse the start.
    """
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(_STATUS, "running"),
        SearchAttributePair(_AGENT, agent),
    ]
    if tags:
        pairs.append(SearchAttributePair(_TAGS, as_texts(tags)))
    return TypedSearchAttributes([pair for pair in pairs if pair.key.name in known])
