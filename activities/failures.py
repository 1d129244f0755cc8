"""How an activity ends without a result: try again, or stop with a named reason.

The workflow decides from the `type` of the error alone; the names are in `onward.names`.
"""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

from redis.exceptions import RedisError
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from onward.errors import AppError, LedgerGap, LedgerUnreadable, PayloadError, UsageError
from onward.messages import GiveUp, Outcome, Spend
from onward.names import StopType

_AT_ONCE_S = 0.001


def stop(
    kind: StopType, message: str, spend: Spend | None = None, limit: Outcome | None = None
) -> ApplicationError:
    """Make the error that ends a step for good; `spend` enters history with it.

    Without one, what the ledger noted of the step is counted when the run ends. `limit`: the
    outcome of the limit that was met, of an error of kind `limit`.
    """
    details = () if spend is None else (GiveUp(spend=spend, limit=limit),)
    return ApplicationError(message, *details, type=kind, non_retryable=True)


def again(
    kind: str, message: str, delay_s: float | None = None, *, expected: bool = False
) -> ApplicationError:
    """Make the error that Temporal retries, after `delay_s` seconds or its own backoff.

    `expected`: it is in order that this happens, so no worker warns of it.
    """
    # To Temporal a delay of zero is none, and it takes its own.
    delay = None if delay_s is None else timedelta(seconds=max(delay_s, _AT_ONCE_S))
    category = ApplicationErrorCategory.BENIGN if expected else ApplicationErrorCategory.UNSPECIFIED
    return ApplicationError(message, type=kind, next_retry_delay=delay, category=category)


def not_registered(activity: str) -> ApplicationError:
    """Make the error for an activity that this worker has not, as the SDK's: a deploy mends it."""
    return ApplicationError(
        f"no activity {activity!r} is registered on this worker. Register it; tools of agents are "
        "run by agents alone",
        type="NotFoundError",
    )


@contextmanager
def translated() -> Generator[None]:
    """Turn what the ledger raises into errors that the workflow and Temporal understand."""
    try:
        yield
    except RedisError as error:
        # Covers a server that is away, loading or out of memory: nothing was fired, wait for it.
        found = str(error).removesuffix(".")
        text = f"the ledger's Redis cannot be used: {found}. The run waits and goes on when it can"
        # With the client's own chain of errors and their traces, Temporal would show nothing at all
        # of the failure: it is too long.
        raise again("redis", text, delay_s=1.0) from None
    except LedgerGap as gap:
        raise stop("ledger_gap", str(gap)) from gap
    except LedgerUnreadable as error:
        # Nothing was fired or lost: a worker of the release that wrote the record goes on.
        raise again("ledger_unreadable", str(error), delay_s=5.0) from error
    except PayloadError as error:
        # Alone: with what the store's driver was doing, Temporal finds it too long to show.
        raise again("payload", str(error)) from None
    except (AppError, UsageError) as error:
        raise stop("app", str(error)) from error
