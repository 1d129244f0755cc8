"""Every type that crosses a process boundary: the wire format of workflows and activities.

All are frozen pydantic models. What Claude said and what is sent to Claude travels as *JSON text*
(`str`), never as nested objects: text keeps number literals and key order through every converter,
and newer models refuse a conversation whose earlier bytes changed. Only `onward/json_text.py`
reads and writes it. Fields may be added with a default; none is renamed or removed, because
histories of running runs hold them.
"""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

EffectClass = Literal["read", "keyed", "at_most_once"]
"""What a repeated call of a tool would do; see docs/guarantees.md. Undeclared: `at_most_once`."""

Outcome = Literal[
    "completed",
    "cancelled",
    "limit_steps",
    "limit_tokens",
    "limit_cost",
    "limit_time",
    "limit_repeats",
    "refused",
    "max_tokens",
    "context_exceeded",
    "unknown_stop",
    "failed",
]
"""How a run ended. The closed list that results, search attributes, CLI and docs share."""


class Wire(BaseModel):
    """Base of all wire types: immutable, unknown fields of newer versions ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


# ---- what a person asks for


class Limits(Wire):
    """When a run ends by itself; every limit is finite. Each has its own outcome, `limit_…`."""

    max_steps: Annotated[int, Field(gt=0)] = 100
    """Claude requests that count as steps of the conversation."""
    max_cost_usd: Annotated[Decimal, Field(gt=0)] = Decimal(5)
    """US dollars, the tokens of lost attempts included."""
    max_tokens: Annotated[int, Field(gt=0)] = 20_000_000
    """Tokens of all kinds, input and output, over the whole run."""
    max_time_s: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds that Claude and tools work; waiting for people, workers and servers is left out."""
    max_repeats: Annotated[int, Field(gt=0)] = 10
    """Steps in a row in which every call failed."""
    max_requests_per_step: Annotated[int, Field(gt=0)] = 10
    """Requests sent for one step before the run gives up on it."""


class LimitOverrides(Wire):
    """Limits that the person who starts a run sets instead of the agent's own."""

    max_steps: Annotated[int, Field(gt=0)] | None = None
    max_cost_usd: Annotated[Decimal, Field(gt=0)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    max_time_s: Annotated[float, Field(gt=0)] | None = None


class Workspace(Wire):
    """A folder on some host. The id in its marker file tells it from another of the same path."""

    path: str
    """Absolute."""
    id: str
    """Content of `.onward/workspace.json` in that folder."""


class RunRequest(Wire):
    """Input of the workflow `agent`: what `starter.py start` asks for."""

    prompt: str
    agent: str
    model: str | None = None
    """None: the agent's own."""
    workspace: Workspace | None = None
    limits: LimitOverrides = LimitOverrides()
    deployment: str = ""
    """Goes into every idempotency key; frozen here so that no deploy changes a running run's.
    Empty: the namespace's name."""


# ---- identity and proof


class RunRef(Wire):
    """Which run an activity belongs to. In every activity's input (ledger.md 1.1, 1.3)."""

    workflow_id: str
    first_run_id: str
    """`first_execution_run_id`: the same over reset and continue-as-new."""
    run_id: str
    """The run that scheduled this activity; after a reset it is not the activity's own."""
    original_run_id: str
    """`original_execution_run_id`: differs from `run_id` in a reset run."""
    reset_lineage: bool = False
    """An earlier segment of this run was made by a reset."""
    deployment: str = ""


class Witness(Wire):
    """Proof, held in history, of which ledger was written to (ledger.md 1.3)."""

    nonce: str
    """Birth nonce of the run's hash in Redis; empty: no witness, nothing is trusted."""
    inc: str
    """The Redis server's run id and replication id at that moment."""
    run_id: str
    """The workflow run that took it."""


class Head(Wire):
    """The end of the transcript so far: a step and the digest over all up to it."""

    step: str
    """Step id whose reply is last; `0` is the frozen beginning."""
    digest: str
    """Hex SHA-256, chained over frozen beginning, turns and replies."""


# ---- begin


class BeginInput(Wire):
    """Input of `begin`."""

    run: RunRef
    request: RunRequest
    witness: Witness | None = None
    """The one that the run already had, if any."""


class Opening(Wire):
    """Result of `begin`: what stays fixed for the whole run."""

    frozen: str
    """JSON text `{"model", "max_tokens", "system", "tools", …}`: a request without messages."""
    effects: dict[str, EffectClass]
    """Effect class by tool name, frozen: a deploy that changes one is refused at the call."""
    limits: Limits
    witness: Witness
    head: Head
    takeover_s: float
    """Heartbeat timeout of activities, seconds."""
    price_known: bool = True
    """False: `max_cost_usd` cannot be enforced for this model."""
    search_attributes: bool = False
    """The server knows Onward's search attributes, so the workflow may set them."""


# ---- a step


class PersonSaid(Wire):
    """A person's message: the prompt, or later one that was sent."""

    kind: Literal["person"] = "person"
    id: str
    text: str


class ResultOf(Wire):
    """A reference to a result that the ledger holds under the call's id."""

    kind: Literal["result_of"] = "result_of"
    call: str
    """`12.1`: step 12, call 1."""
    tool_use_id: str
    is_error: bool = False
    fingerprint: str = ""
    """Of the call: another branch's record at its position is not its result. Empty: any."""


class ResultWritten(Wire):
    """A result that the workflow wrote itself, for a call that never ran or cannot be read."""

    kind: Literal["result_written"] = "result_written"
    tool_use_id: str
    text: str
    is_error: bool = True


Addition = Annotated[PersonSaid | ResultOf | ResultWritten, Field(discriminator="kind")]
"""One thing that a user turn adds to the conversation."""


class ClaudeInput(Wire):
    """Input of `call_claude`. Its size does not grow with the number of steps."""

    run: RunRef
    agent: str
    step: str
    """`12`; a redo is `12.r1`."""
    head: Head
    additions: tuple[Addition, ...]
    witness: Witness
    takeover_s: float


class PreparedCall(Wire):
    """One tool use, judged by the activity that read the reply (architecture.md, a step, 3)."""

    call: str
    tool_use_id: str
    tool: str
    effect: EffectClass
    fingerprint: str
    """SHA-256 over canonical JSON of `{tool, input}`."""
    key: str
    """Idempotency key for the downstream, `onw_…`."""
    summary: str
    """The arguments in one line, for people."""
    timeout_s: float
    """Seconds that the tool may take."""
    refusal: str | None = None
    """Why the call may not run at all (unknown tool, invalid input); told to Claude."""


class Attempt(Wire):
    """One request sent for a step: kept in the ledger and in heartbeats while it runs."""

    model: str
    usage: dict[str, Any] = {}
    """As the stream reported it last; empty: sent, and nothing is known yet."""
    whole: bool = False
    """The reply arrived to its end."""
    sent: bool = True
    """False: it turned out that nothing reached the API."""
    refused: bool = False
    """The API answered with an error instead of a reply, which costs nothing."""


class Spend(Wire):
    """Tokens and money, lost attempts included. Sums with `+`."""

    requests: int = 0
    """Requests sent to Claude."""
    lost_requests: int = 0
    """Of those, the ones whose reply never arrived whole; their tokens are a lower bound."""
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    """Of everything whose price is known."""
    unpriced_requests: int = 0
    """Requests whose price is not known: `cost_usd` leaves them out."""

    def __add__(self, other: "Spend") -> "Spend":
        names = type(self).model_fields
        return Spend(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def tokens(self) -> int:
        """All tokens, of every kind."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
            + self.output_tokens
        )


class ClaudeReply(Wire):
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
    spend: Spend = Spend()
    """Of all attempts of this step, lost ones included."""
    took_s: float = 0.0
    """Seconds that the attempt ran which got the reply."""
    witness: Witness
    """Seen in the ledger operation that recorded or found the reply; the step's calls use it."""


class GiveUp(Wire):
    """Details of an error with which `call_claude` stops a step for good and knows its spend."""

    spend: Spend = Spend()
    """Of all attempts of the step, so that it enters history although the step failed."""


class ToolInput(Wire):
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
    timeout_s: float


class CallResult(Wire):
    """Result of every tool activity: what Claude is told, bounded and cleaned once."""

    status: Literal["done", "failed", "in_doubt"]
    content: str
    """JSON text of a tool_result's `content`: a string or a list of blocks."""
    is_error: bool = False
    why: str = ""
    """Of a doubt: what makes the outcome unknown."""
    recorded: bool = True
    """False: the ledger could not be told; history is the only record."""
    took_s: float = 0.0
    """Seconds that the attempt ran; waiting for servers and workers is not in it."""


# ---- repair and end


class RefillInput(Wire):
    """Input of `refill`: rebuild the run's records in Redis from its own history."""

    run: RunRef
    witness: Witness


class Refilled(Wire):
    """Result of `refill`."""

    records: int
    witness: Witness


class RunResult(Wire):
    """Result of a run, for whatever reason it ended."""

    outcome: Outcome
    text: str = ""
    """Claude's last words; partial where the run did not complete."""
    detail: str = ""
    """Why it ended, in one sentence, where the outcome alone does not say it."""
    steps: int = 0
    in_doubt: tuple[str, ...] = ()
    """Calls whose effect may or may not have happened."""
    spend: Spend = Spend()


class EndInput(Wire):
    """Input of `end`, the last activity of every run: its records may expire from now on."""

    run: RunRef
    result: RunResult
    asking: str = ""
    """Step whose `call_claude` ended without a word on its spend: what the ledger knows counts."""


class CancelRequest(Wire):
    """Payload of the signal `cancel`; an empty signal works too."""

    reason: str = ""


class RunStatus(Wire):
    """Answer of the query `status`."""

    agent: str
    state: Literal["running", "cancelling", "ended"]
    step: str
    doing: str
    """What happens right now, in words: `asking Claude`, `12.1 refund`."""
    outcome: Outcome | None = None
    limits: Limits | None = None
    """None until the run has begun."""
    price_known: bool | None = None
    """False: the model's price is not known, so `max_cost_usd` cannot be enforced."""
    spend: Spend = Spend()
    in_doubt: tuple[str, ...] = ()
    workspace: Workspace | None = None
