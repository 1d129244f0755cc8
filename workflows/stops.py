"""Why an activity stopped for good, read from the error that Temporal hands over."""

from collections.abc import Iterable

from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from onward.messages import GiveUp, Outcome

_OUTCOMES: dict[str, Outcome] = {
    "cancelled": "cancelled",
    "context_exceeded": "context_exceeded",
}


def kind_of(error: ActivityError) -> str:
    """Type name of the error that ended the activity (`onward.names.StopType`, or another)."""
    cause = error.cause
    return cause.type or "" if isinstance(cause, ApplicationError) else type(cause).__name__


def outcome_of(error: ActivityError) -> Outcome:
    """Outcome of a run that this error ends."""
    return _OUTCOMES.get(kind_of(error), "failed")


def limit_of(error: ActivityError) -> tuple[Outcome, str] | None:
    """Say which limit an activity met before it sent its request; None: it stopped otherwise."""
    told = gave_up(error) if kind_of(error) == "limit" else None
    return (told.limit, reason_of(error)) if told and told.limit else None


def reason_of(error: ActivityError) -> str:
    """Give the sentence that the activity left for people."""
    cause = error.cause
    return cause.message if isinstance(cause, FailureError) else str(cause or error)


def gave_up(error: ActivityError) -> GiveUp | None:
    """What the step's attempts carry into history; None where none of them had the last word."""
    cause = error.cause
    details: Iterable[object] = cause.details if isinstance(cause, ApplicationError) else ()
    return next((GiveUp.model_validate(item) for item in details), None)
