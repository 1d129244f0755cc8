"""What happens in a run, one thing after another, as those who watch are told it."""

from dataclasses import dataclass

from onward.history import Ended
from onward.live.fragments import Fragment
from onward.messages import ClaudeReply, Spend
from onward.messages import Waiting as WaitingCall
from onward.runs import Run


@dataclass(frozen=True)
class Watched:
    """The run is being watched from here on."""

    run: Run
    earlier_steps: int
    """Steps before the first one that is told."""


@dataclass(frozen=True)
class Asked:
    """A step began: Claude is asked."""

    run_id: str
    """Of the workflow run."""
    step: str
    said: tuple[tuple[str, str], ...] = ()
    """What people say to Claude in it, each as the message's id and its text."""


@dataclass(frozen=True)
class Wrote:
    """Claude wrote a piece of the step's reply."""

    step: str
    fragment: Fragment


@dataclass(frozen=True)
class Restarted:
    """What was told of the step's reply is dropped: its attempt died, or its reply did not count.

    What follows is a reply from its beginning.
    """

    step: str


@dataclass(frozen=True)
class Replied:
    """The step's reply is whole, and recorded. All of it was told as `Wrote` before."""

    step: str
    reply: ClaudeReply
    total: Spend
    """Of the run, up to this reply."""


@dataclass(frozen=True)
class Unanswered:
    """The step's request came to no reply."""

    step: str
    why: str


@dataclass(frozen=True)
class CallEnded:
    """A call has a result, or is known to have none."""

    call: str
    tool: str
    how: str
    """`done`, `failed`, `in_doubt`; `not_run` where Claude was told so instead."""
    text: str
    """What Claude is told."""
    took_s: float | None = None


@dataclass(frozen=True)
class Waits:
    """The run waits for a person."""

    waiting: WaitingCall


@dataclass(frozen=True)
class Decided:
    """A person said something about the run: approved, denied, resolved a call, changed a limit."""

    what: str
    call: str
    by: str
    edit: str = ""
    """The input that they gave the call they approved, JSON text; empty: it keeps Claude's own."""
    instead_of: str = ""
    """Claude's own, where there is an edit."""
    remember: bool = False
    """Calls like this one need no approval any more."""


@dataclass(frozen=True)
class Messaged:
    """A person said something to Claude, which is told of it at its next step."""

    id: str
    text: str
    by: str


@dataclass(frozen=True)
class Paused:
    """Somebody paused the run: it finishes the step under way, and waits."""

    reason: str
    by: str


@dataclass(frozen=True)
class Resumed:
    """Somebody let a paused run go on."""

    reason: str
    by: str


@dataclass(frozen=True)
class Stopping:
    """Somebody asked the run to stop."""

    reason: str = ""
    by: str = ""
    after_step: bool = False
    """It finishes the step under way first."""


@dataclass(frozen=True)
class Trouble:
    """Something holds the run up, or what is told of it."""

    text: str


@dataclass(frozen=True)
class RunEnded:
    """The run ended."""

    run: Run
    how: Ended


Happening = (
    Watched
    | Asked
    | Wrote
    | Restarted
    | Replied
    | Unanswered
    | CallEnded
    | Waits
    | Decided
    | Messaged
    | Paused
    | Resumed
    | Stopping
    | Trouble
    | RunEnded
)
