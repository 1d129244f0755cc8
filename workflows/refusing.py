"""What a run may not begin with, and how a run refuses anything at all."""

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from onward.errors import UsageError
from onward.messages import RunRequest
from onward.tags import as_texts, parse_tags

_MAX_REQUEST_BYTES = 1_950_000
"""Of a run's input as JSON. Temporal refuses 2 MiB, and activities' inputs hold the prompt too."""


def refused(text: str) -> ApplicationError:
    """Make the error of what cannot be taken; it fails an update, or a run as it begins."""
    return ApplicationError(text, type="usage", non_retryable=True)


def refuse_unfit(request: RunRequest) -> None:
    """Raise where a run cannot be begun so."""
    _refuse_repeats()
    if not request.carried:  # what a run carries over was taken long ago
        _refuse_size(request)
        _refuse_tags(request)


def _refuse_repeats() -> None:
    """Refuse what would run a run's steps again under the same keys."""
    info = workflow.info()
    if info.cron_schedule or info.retry_policy:
        found = f"cron schedule {info.cron_schedule!r}, retry policy {info.retry_policy!r}"
        raise refused(
            f"found {found}; expected neither, because repeats share idempotency keys. "
            "Start a run without a retry policy, and use a Temporal Schedule instead of cron"
        )


def _refuse_size(request: RunRequest) -> None:
    """Refuse what would no longer fit the inputs of activities: those retry for ever."""
    size = len(request.model_dump_json().encode())
    if size > _MAX_REQUEST_BYTES:
        raise refused(
            f"found a run's input of {size:,} bytes as JSON, expected {_MAX_REQUEST_BYTES:,} at "
            "most. Put what is long in a file that a tool reads"
        )


def _refuse_tags(request: RunRequest) -> None:
    """Refuse those that Temporal's index does not hold: setting them would terminate the run."""
    try:
        parse_tags(as_texts(request.tags))
    except UsageError as error:
        raise refused(str(error)) from error
