"""What a run asks of people, and what they say: approve, deny, settle a doubt."""

from typing import Literal

from onward.messages.base import EffectClass, Wire
from onward.messages.call import BusinessKey, CallResult, PreparedCall
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
