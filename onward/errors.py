"""Every exception of Onward, when it is raised, and who acts on it.

    OnwardError
     ├─ ToolOutcome            raised by tool authors, to say what they know about the effect
     │   ├─ Rejected           the request certainly did nothing      -> told to Claude
     │   └─ NotSent            nothing left this process              -> tried again
     ├─ UsageError             a person asked for something impossible -> printed, exit code 2
     ├─ ConnectError           Temporal or Redis is not there          -> printed, exit code 3
     ├─ RedisFull              no room for a new run's records         -> printed, exit code 1
     ├─ NoSuchRun              no run of that id                       -> printed, exit code 4
     ├─ AppError               the user's app module is wrong          -> printed, exit code 2
     ├─ PayloadError           a large payload's file is not to be had -> tried again
     ├─ HistoryGap             history does not tell a whole conversation -> printed, exit code 1
     └─ LedgerError
         ├─ LedgerGap          a record that history knows is missing  -> the workflow refills
         └─ LedgerUnreadable   a record written by a newer version     -> stops, nothing fired

Activities turn these into Temporal `ApplicationError`s; `workflows/` decides from their `type`.
"""


class OnwardError(Exception):
    """The root of all errors that Onward raises on purpose."""


class ToolOutcome(OnwardError):
    """What a tool author knows about an effect that did not come to its normal end."""


class Rejected(ToolOutcome):
    """The other side refused: this request certainly did nothing. Told to Claude as an error."""


class NotSent(ToolOutcome):
    """Nothing left this process. Onward tries again with the same idempotency key."""


class UsageError(OnwardError):
    """A person asked for something impossible; the message says what to do instead."""


class ConnectError(OnwardError):
    """A server that Onward needs does not answer; the message names it and its address."""


class RedisFull(OnwardError):
    """A new run is refused: its records, or those of the runs that go on, may not find room."""


class NoSuchRun(OnwardError):
    """Temporal knows no run of that id (or no longer: closed runs are kept for its retention)."""


class AppError(OnwardError):
    """The app module cannot be imported, or what it defines is not valid."""


class PayloadError(OnwardError):
    """A payload too large for history cannot be written or read; see `onward/payload_store.py`."""


class HistoryGap(OnwardError):
    """What Temporal holds of a conversation has a gap, or does not fit its digest."""

    def __init__(self, found: str, run: str = "the run") -> None:
        super().__init__(
            f"the conversation of {run} cannot be told whole from its history: {found}. If a newer "
            "Onward wrote it, use that one; if Temporal or the payload folder was restored from a "
            "backup, restore both from the same time"
        )


class LedgerError(OnwardError):
    """Something about the records in Redis."""


class LedgerGap(LedgerError):
    """A record that history says must exist is missing: a flush, an eviction, a lost write."""


class LedgerUnreadable(LedgerError):
    """A record exists but cannot be understood; nothing is fired on a guess."""
