"""One step: what a user turn adds, the request to Claude, its reply."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from onward.messages.base import Outcome, Terse, Wire
from onward.messages.call import CallResult, PreparedCall, ToolInput
from onward.messages.identity import Head, RunRef, Witness
from onward.messages.request import Workspace
from onward.messages.spend import Rest, Spend, Tally


class Prompt(Wire):
    """The prompt, which stands in the run's start event: history holds it once."""

    kind: Literal["prompt"] = "prompt"
    id: str = "prompt"


class PersonSaid(Wire):
    """A person's message."""

    kind: Literal["person"] = "person"
    id: str
    text: str


class ResultOf(Terse):
    """A reference to a result that the ledger holds under the call's id."""

    kind: Literal["result_of"] = "result_of"
    call: str
    """`12.1`: step 12, call 1."""
    tool_use_id: str
    is_error: bool = False
    fingerprint: str = ""
    """Of the call: another branch's record at its position is not its result. Empty: any."""
    note: str = ""
    """What Claude is told before the result: that a person edited the call, and to what."""


class ResultWritten(Wire):
    """A result that the workflow wrote itself, for a call that never ran or cannot be read."""

    kind: Literal["result_written"] = "result_written"
    tool_use_id: str
    text: str
    is_error: bool = True


class ContextUse(Wire):
    """How full the model's context window was when Claude last answered."""

    tokens: int = 0
    """Of the whole request and of the reply."""
    window: int | None = None
    """Tokens that the model takes; None: not known."""
    body_bytes: int = 0
    """Of the request; the API takes 32 MB, images included."""


class Continue(Wire):
    """What the workflow tells Claude whose last reply was cut off at `max_tokens`."""

    kind: Literal["continue"] = "continue"
    id: str
    """`continue:12`, after the step whose reply was cut off."""


Addition = Annotated[
    Prompt | PersonSaid | Continue | ResultOf | ResultWritten, Field(discriminator="kind")
]
"""One thing that a user turn adds to the conversation."""


Compacting = Literal["now", "if_full", "never"]
"""`now`: ask for a summary in place of a reply. `if_full`: ask nothing where the context window is
nearly full, and say so. `never`: ask for a reply however full it is."""


class ClaudeInput(Terse):
    """Input of `call_claude`. Its size does not grow with the number of steps."""

    run: RunRef
    agent: str
    step: str
    """`12`; a redo is `12.r1`, a summary that makes room for it `12.c1`."""
    head: Head
    additions: tuple[Addition, ...]
    witness: Witness
    takeover_s: float
    workspace: Workspace | None = None
    """The run's folder, for reads that are run in this activity."""
    reads: bool = False
    """Run the reply's calls too where all of them only read: the workflow knows `results`."""
    compact: Compacting = "never"
    context: ContextUse | None = None
    """How full the context window was when Claude last answered."""
    rest: Rest | None = None
    """What may still be spent; None: of a worker of before 0.4."""
    max_tokens: int = 0
    """Of the reply, where a shorter one was cut off; 0: the agent's own."""
    long_cache: bool = False
    """Steps of this run may be so far apart that the API should keep its prefix for an hour."""


def _terse_spend(spend: Spend) -> dict[str, Any]:
    """Write a step's spend into history: nearly always one model did it all, and is only named."""
    terse = spend.model_dump(mode="json", exclude_defaults=True)
    if [*spend.models.values()] == [spend.total]:
        terse["models"] = dict.fromkeys(spend.models)
    return terse


def _whole_spend(given: Any) -> Any:
    """Read what `_terse_spend` wrote."""
    match given:
        case {"models": {**models}} if [*models.values()] == [None]:
            total = {name: given[name] for name in Tally.model_fields if name in given}
            return {**given, "models": dict.fromkeys(models, total)}
        case _:
            return given


_StepSpend = Annotated[Spend, PlainSerializer(_terse_spend), BeforeValidator(_whole_spend)]


class ClaudeReply(Terse):
    """Result of `call_claude`, and the ledger's record of the step: reply and calls in one."""

    message: str
    """JSON text of Claude's message as it was received."""
    stop_reason: str
    calls: tuple[PreparedCall, ...] = ()
    head: Head
    """The transcript's end after this reply."""
    prev: str
    """Step id before this one: the transcript is the chain of these."""
    turn: str = ""
    """The answered user turn, where it is not the one that the step's additions make: an earlier
    branch froze it, and history has it nowhere else. Empty: the additions' own."""
    turn_ids: tuple[str, ...] = ()
    """Ids of the people's messages that the answered user turn held."""
    spend: _StepSpend = Spend()
    """Of all attempts of this step, lost ones included."""
    took_s: float = 0.0
    """Seconds that the attempt ran which got the reply."""
    witness: Witness
    """Seen in the ledger operation that recorded or found the reply; the step's calls use it."""
    results: tuple[CallResult | None, ...] = ()
    """Of calls that only read and were run in the same activity, by index. Missing or None: the
    call is to be run. Not in the ledger's record: each call has one of its own."""
    context: ContextUse | None = None
    max_tokens: int = 0
    """That the reply was allowed, where it was cut off there; else 0."""
    lowered: Outcome | None = None
    """The limit for whose sake Claude was allowed less than the agent's `max_tokens`."""
    found: bool = False
    """The reply was in the ledger already, and was not paid again."""
    people_s: float = 0.0
    """Seconds that the step waited until somebody paid, or raised a limit at the API."""

    def record(self) -> str:
        """Return the JSON text for the ledger's record."""
        return self.model_dump_json(exclude={"results"})

    def tool_input(
        self, index: int, run: RunRef, agent: str, workspace: Workspace | None, takeover_s: float
    ) -> ToolInput:
        """Name a call of the reply to its tool.

        The call's witness is the one of its reply, whatever is refilled meanwhile: a later one may
        vouch for a ledger that the call's first claim was wiped from.
        """
        call = self.calls[index]
        return ToolInput(
            asked=call.asked,
            run=run,
            agent=agent,
            step=self.head.step,
            index=index,
            call=call.call,
            fingerprint=call.fingerprint,
            effect=call.effect,
            key=call.key,
            workspace=workspace,
            witness=self.witness,
            takeover_s=takeover_s,
            timeout_s=call.timeout_s,
            business=call.business,
        )
