"""What a run asks of people, and what they say: approve, deny, settle a doubt."""

from typing import Literal

from pydantic import field_validator

from onward import json_text
from onward.messages.base import EffectClass, Wire
from onward.messages.call import BusinessKey, CallResult, Otherwise, PreparedCall
from onward.messages.identity import RunRef, Witness
from onward.messages.request import LimitOverrides

WaitKind = Literal["approval", "doubt", "limit"]
Settlement = Literal["done", "failed", "retry"]
"""What a person says of a call in doubt: it happened, it did not, it did not and shall be tried."""


class Waiting(Wire):
    """A call that waits for a person, or a run that has met a limit."""

    call: str
    """Of a limit: `limit`."""
    kind: WaitKind
    tool: str
    summary: str
    """The arguments in one line."""
    input: str = ""
    """The arguments, JSON text cut at 4 KiB with a mark; only in answers to `status`."""
    why: str
    """Why a person is asked."""
    view: str
    """Names what the person sees; what they say of another one is refused."""
    since_ms: int
    """When the waiting began, Unix ms."""
    expires_ms: int = 0
    """When it ends by itself, Unix ms, and `otherwise` counts as said; 0: never."""
    otherwise: Otherwise = "deny"


class Doubt(Wire):
    """What is needed to settle a call in doubt."""

    call: PreparedCall
    witness: Witness
    at_ms: int
    """The moment that names it."""


class Said(Wire):
    """Base of what a person says of a waiting call."""

    call: str
    view: str = ""
    """`Waiting.view` as they saw it; empty: whatever it is now."""
    by: str = ""
    """Who they are, as their client claims: nobody has checked it."""


class Approval(Said):
    """Payload of the update `approve`: the call may run."""

    edit: str = ""
    """The input with which it shall run instead of Claude's, JSON text of an object."""
    remember: bool = False
    """In this run, calls of the same tool that would be asked about for the same reason need no
    approval any more. An edited approval is never remembered."""

    @field_validator("edit", mode="before")
    @classmethod
    def _as_text(cls, edit: object) -> object:
        # What a person types into the Temporal UI.
        return json_text.dumps(edit) if isinstance(edit, dict) else edit


class Remembered(Wire):
    """What a person approved for the rest of the run."""

    tool: str
    why: str
    """`PreparedCall.ask`."""


class EditInput(Wire):
    """Input of `edit_call`: judge the input that a person gives a call."""

    run: RunRef
    agent: str
    call: PreparedCall
    """As Claude's own input was judged."""
    edit: str
    """`Approval.edit`."""
    witness: Witness
    takeover_s: float


class Edited(Wire):
    """Result of `edit_call`: the call as it would run, or why it may not."""

    call: PreparedCall | None = None
    refusal: str = ""


class Message(Wire):
    """Payload of the update `send`: what Claude is told at its next step."""

    text: str
    id: str = ""
    """Names the message: what is sent again under the same id is taken once. Empty: the update's.
    """
    by: str = ""
    """Who says so, as their client claims."""


class Sent(Wire):
    """Result of the update `send`."""

    id: str
    unseen: int
    """Messages that Claude has not seen yet, this one included; 0: it has seen this one."""


class Paused(Wire):
    """A run that a person has paused: it finishes its step, and waits."""

    since_ms: int
    """When they said so, Unix ms."""
    reason: str = ""
    by: str = ""


class NotifyInput(Wire):
    """Input of `notify_people`, which tells the app what began to wait for a person."""

    run: RunRef
    agent: str
    waiting: tuple[Waiting, ...]
    """With `input`."""


class Notified(Wire):
    """Result of `notify_people`: the app was told, or has nothing to be told with any more."""


class Denial(Said):
    """Payload of the update `deny`: the call may not run."""

    why: str = ""
    """Told to Claude."""


class Resolve(Said):
    """Payload of the update `resolve`: how a call in doubt ended, as a person found out."""

    outcome: Settlement
    note: str = ""
    """Told to Claude."""
    said_ms: int | None = None
    """When they said it, Unix ms by their clock. None: when the run hears it."""


class LimitChange(LimitOverrides):
    """Payload of the update `limit`, whose result is the `Limits` that hold from now on."""

    by: str = ""
    """Who says so, as their client claims."""


class ResolveInput(Wire):
    """Input of the activity `resolve`."""

    run: RunRef
    call: str
    fingerprint: str
    effect: EffectClass
    at_ms: int
    """The doubt that is settled: `CallResult.at_ms`."""
    outcome: Settlement
    note: str = ""
    by: str = ""
    quarantine_ms: int
    """How long after the doubt a request that was sent before may still land."""
    said_ms: int
    """When the person spoke: by then the quarantine must have been over."""
    business: BusinessKey | None = None
    witness: Witness
    takeover_s: float


class Resolution(Wire):
    """Result of `resolve`: what the ledger holds of the call now."""

    verdict: Literal["done", "failed", "open"]
    """`open`: it is tried again."""
    result: CallResult | None = None
    """Of done and failed: the recorded one, which is not what the person said where the truth had
    come meanwhile."""
