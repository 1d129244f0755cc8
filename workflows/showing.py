"""What of a run is shown outside of it: its card, and the search attributes that it is found by."""

from collections.abc import Iterable
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from onward import names
from onward.tags import as_texts

from .card import card
from .state import RunState

_OUTCOME = SearchAttributeKey.for_keyword("OnwardOutcome")
"""Of runs that a worker of before 0.5 began; so is what is set of `OnwardWaiting` alone."""
_KEYWORD_LETTERS = 255
"""Of a keyword, in the visibility stores that are SQL databases."""
_KEYS: dict[names.AttributeType, Any] = {
    "Keyword": SearchAttributeKey.for_keyword,
    "KeywordList": SearchAttributeKey.for_keyword_list,
    "Int": SearchAttributeKey.for_int,
    "Double": SearchAttributeKey.for_float,
}


def show(state: RunState, doing: str | None = None) -> None:
    """Show the run as it is now; `doing` says what it does from now on."""
    state.doing = state.doing if doing is None else doing
    prompt = workflow.memo_value("prompt", "")
    workflow.set_current_details(card(state, workflow.info().workflow_id, prompt))
    _set_attributes(state)


def show_waiting(state: RunState) -> None:
    """Show what waits for people, of whom it changed."""
    show(state)
    if state.opening and state.opening.shows_waiting:
        _upsert([_set(names.WAITING, _first_waiting(state))])


def show_outcome(state: RunState, outcome: str) -> None:
    """Show how the run ended, as a worker of before 0.5 would."""
    if state.opening and state.opening.search_attributes:
        _upsert([_OUTCOME.value_set(outcome)])


def _set_attributes(state: RunState) -> None:
    """Set those that changed, of the ones that the namespace had when the run began.

    One that it has not would fail the workflow's task for ever.
    """
    known = state.opening.attributes if state.opening else ()
    values = {name: value for name, value in _values(state).items() if name in known}
    changed = {name: value for name, value in values.items() if state.attributes.get(name) != value}
    if changed:
        state.attributes = values
        _upsert(_set(name, value) for name, value in changed.items())


def _values(state: RunState) -> dict[str, Any]:
    spend = state.spend
    unknown = spend.unpriced_requests and not spend.cost_usd
    return {
        names.STATUS: state.status_word,
        names.AGENT: state.request.agent,
        names.MODEL: (state.opening.model if state.opening else "")[:_KEYWORD_LETTERS] or None,
        names.WAITING: _first_waiting(state),
        names.TAGS: as_texts(state.request.tags) or None,
        names.STEP: state.steps,
        names.TOKENS: spend.tokens,
        names.COST: None if unknown else float(spend.cost_usd),
    }


def _first_waiting(state: RunState) -> str | None:
    return next((each.kind for each in state.waiting.shown.values()), None)


def _set(name: str, value: Any) -> Any:
    key = _KEYS[names.ATTRIBUTES[name]](name)
    return key.value_unset() if value is None else key.value_set(value)


def _upsert(updates: Iterable[Any]) -> None:
    workflow.upsert_search_attributes([*updates])  # pyright: ignore[reportUnknownMemberType]
