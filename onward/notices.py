"""What an app is told when a run begins to wait for a person: `App(…, on_waiting=…)`."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from onward.errors import AppError
from onward.messages import Otherwise, Waiting, WaitKind
from onward.wording import how_to_answer


@dataclass(frozen=True)
class WaitingNotice:
    """Something for which a run waits for a person. Nothing of it is cleaned for a terminal."""

    run: str
    """Id of the run."""
    agent: str
    kind: WaitKind
    """A call that needs an approval, a call in doubt, or a limit that the run has met."""
    call: str
    """Like `12.1`; of a limit: `limit`."""
    tool: str
    """Of a limit: the outcome with which the run would end, such as `limit_cost`."""
    summary: str
    """What would happen, in one line; of a limit: what was reached."""
    why: str
    """Why a person is asked."""
    input: str
    """The call's arguments: JSON text, cut at 4 KiB with a mark."""
    since: datetime
    expires: datetime | None
    """When the waiting ends by itself, and `otherwise` counts as said; None: never."""
    otherwise: Otherwise
    how_to_answer: str
    """The commands that settle it, for people."""


OnWaiting = Callable[[WaitingNotice], Awaitable[object]]
"""An app's own function, for instance one that writes to a chat."""


def notice_of(run: str, agent: str, waiting: Waiting) -> WaitingNotice:
    """Make what the app is told of it."""
    return WaitingNotice(
        run=run,
        agent=agent,
        kind=waiting.kind,
        call=waiting.call,
        tool=waiting.tool,
        summary=waiting.summary,
        why=waiting.why,
        input=waiting.input,
        since=_moment(waiting.since_ms),
        expires=_moment(waiting.expires_ms) if waiting.expires_ms else None,
        otherwise=waiting.otherwise,
        how_to_answer=how_to_answer(run, waiting),
    )


def refuse_no_hook(found: object) -> None:
    """Raise `AppError` for what cannot be an `on_waiting`."""
    if not callable(found) or not _is_async(found):
        raise AppError(
            f"App has on_waiting {found!r}; give it an `async def` function of one WaitingNotice"
        )
    try:
        inspect.signature(found).bind(object())
    except TypeError as error:
        raise AppError(
            f"App has on_waiting {found!r}, which cannot be called with one WaitingNotice: {error}"
        ) from error


def _is_async(found: object) -> bool:
    called = getattr(type(found), "__call__", None)  # noqa: B004  (its own kind of call is wanted)
    return inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(called)


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
