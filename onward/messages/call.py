"""One tool call: as it was prepared, as it is run, as it ended."""

from typing import Literal

from onward.messages.base import EffectClass, Terse, Wire
from onward.messages.identity import RunRef, Witness
from onward.messages.request import Workspace

USUAL_TIMEOUT_S = 120.0
"""What histories leave out, so it never changes: not even where tools get another default."""
Otherwise = Literal["deny", "approve"]
"""What counts as said where nobody answers in time."""
Settler = Literal["person", "model"]
"""Who settles a doubt: a person, for whom the run waits, or Claude, who is told of it."""


class BusinessKey(Wire):
    """What a call asks for in its tool's own words: a call with the same asks for the same."""

    position: str
    """Where the ledger keeps what became of it, whichever call asked first."""
    everywhere: bool = False
    """Recognised in every run of the deployment; else in this run."""


class PreparedCall(Terse):
    """One tool use, judged by the activity that read the reply (docs/architecture.md)."""

    call: str
    tool_use_id: str
    tool: str
    effect: EffectClass
    fingerprint: str
    """SHA-256 over canonical JSON of `{tool, input}`."""
    key: str
    """Idempotency key for the downstream, `onw_…`."""
    summary: str
    """What the call would do, in one line for people: in the tool's own words, or its arguments."""
    timeout_s: float = USUAL_TIMEOUT_S
    """Seconds that one attempt may take."""
    refusal: str | None = None
    """Why the call may not run at all (unknown tool, invalid input); told to Claude."""
    ask: str = ""
    """Why a person must approve it first; empty: nobody need."""
    in_doubt: Settler = "model"
    """Who settles it where it ends in doubt."""
    business: BusinessKey | None = None
    asked: str = ""
    """Fingerprint of Claude's own input, where a person edited it: all else is of the edited one.
    """
    expires_s: float = 0.0
    """Seconds that an approval is waited for; 0: as long as it takes."""
    otherwise: Otherwise = "deny"


class ToolInput(Terse):
    """Input of every tool activity: names the call; its arguments are in the ledger."""

    run: RunRef
    agent: str
    step: str
    """Step id of the reply that asks for the call."""
    index: int
    """Position of the call in that reply's `calls`."""
    call: str
    fingerprint: str
    effect: EffectClass
    key: str
    workspace: Workspace | None = None
    witness: Witness
    takeover_s: float
    timeout_s: float = USUAL_TIMEOUT_S
    business: BusinessKey | None = None
    edit: str = ""
    """The input as a person edited it, JSON text; empty: Claude's own, which is in the ledger."""
    asked: str = ""
    """`PreparedCall.asked`."""


class CallResult(Terse):
    """Result of every tool activity: what Claude is told, bounded and cleaned once."""

    status: Literal["done", "failed", "in_doubt"] = "done"
    content: str
    """JSON text of a tool_result's `content`: a string or a list of blocks."""
    whole: str = ""
    """The whole text, where `content` shows a part: of before 0.3, or not kept elsewhere yet."""
    whole_sha: str = ""
    """Of before 0.3: SHA-256 of the whole text."""
    whole_at: str = ""
    """Reference of the whole text (`onward/segments.py`), where `content` shows only a part: for
    `read_result`. Empty where `content` is all there is."""
    is_error: bool = False
    why: str = ""
    """Of a doubt: what makes the outcome unknown."""
    at_ms: int = 0
    """Of a doubt: the moment that names it, ms; who settles it must have seen this one."""
    first_call: str = ""
    """Whose result this is, where an earlier call asked for the same: `run-1 3.1`."""
    recorded: bool = True
    """False: the ledger could not be told; history is the only record."""
    took_s: float = 0.0
    """Seconds that the attempt ran; waiting for servers and workers is not in it."""

    def record(self) -> str:
        """Return the JSON text for the ledger's record."""
        return self.model_dump_json()
