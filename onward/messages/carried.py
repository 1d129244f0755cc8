"""What a run carries over when it continues as new, and where the rest of it is.

The conversation is in *segments*: one for each workflow run of the chain, made once and never
again. A segment is named by a *reference*, which `onward/segments.py` makes and reads: it is the
segment itself where that is small, else it says where in the payload store to find it.
"""

from pydantic import Field

from onward.messages.base import Wire
from onward.messages.beginning import Opening
from onward.messages.identity import Head, RunRef, Witness
from onward.messages.people import (
    Approval,
    Denial,
    Doubt,
    Paused,
    Remembered,
    Resolution,
    Waiting,
)
from onward.messages.request import Limits
from onward.messages.spend import Spend
from onward.messages.step import Addition, ClaudeReply, ContextUse


class HalfStep(Wire):
    """A step whose calls are not all answered: some wait for a person."""

    reply: ClaudeReply
    """Without its message, which is in the segments."""
    results: dict[str, Addition] = Field(default_factory=dict)
    """What Claude will be told of the calls that ended, by call."""
    inputs: dict[str, str] = Field(default_factory=dict)
    """Arguments of the other calls, as `Waiting.input`: a person may yet be asked about each."""
    edits: dict[str, str] = Field(default_factory=dict)
    """Inputs that people gave calls instead of Claude's, JSON text, by call."""


class Carried(Wire):
    """State of a run between two of its workflow runs; also the result of `fork`."""

    segments: tuple[str, ...]
    """References, oldest first."""
    reset_lineage: bool = False
    opening: Opening
    witness: Witness
    head: Head
    additions: tuple[Addition, ...] = ()
    steps: int = 0
    text: str = ""
    """Claude's last words."""
    spend: Spend = Spend()
    running_s: float = 0.0
    failing: int = 0
    in_doubt: tuple[str, ...] = ()
    doubts: dict[str, Doubt] = Field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()
    approved: dict[str, Approval] = Field(default_factory=dict)
    """Decided by a person and not acted on yet, by call; so are `denied` and `settled`."""
    denied: dict[str, Denial] = Field(default_factory=dict)
    settled: dict[str, Resolution] = Field(default_factory=dict)
    half: HalfStep | None = None
    context: ContextUse | None = None
    raised: Limits | None = None
    """The limits as a person changed them; None: those of the opening."""
    began_ms: int = 0
    """When the run was begun, Unix ms; 0: of a worker of before 0.4."""
    people_s: float = 0.0
    """Seconds that it waited for people."""
    repeated: tuple[str, ...] = ()
    """Fingerprints of the calls of the last step, where all of them failed."""
    pauses: int = 0
    """Replies in a row in which the API paused Claude's turn."""
    cuts: int = 0
    """Replies in a row that were cut off at `max_tokens`."""
    unfinished: bool = False
    """What Claude says next goes on from its last words."""
    redos: int = 0
    """Tries of the step under way."""
    summaries: int = 0
    """Tries to make a summary before it."""
    max_tokens: int = 0
    """Of replies, once one was cut off; 0: the agent's own."""
    longest_gap_s: float = 0.0
    """The longest time between a reply and the request after it."""
    vain_summary: int | None = None
    """Steps that were done when Claude was asked for a summary in vain."""
    paused: Paused | None = None
    results_only: bool = False
    """A tool of the API's own has no result yet: people's messages wait for the turn after."""
    messages: tuple[str, ...] = ()
    """Ids of the messages that people sent last: each is taken once, whenever it comes again."""
    answers: dict[str, str] = Field(default_factory=dict)
    """What people were answered last, JSON text by the id of their update: Temporal knows an update
    again within one workflow run only."""
    remembered: tuple[Remembered, ...] = ()
    notified: tuple[str, ...] = ()
    """What waits, and the app was told so."""


class CarryInput(Wire):
    """Input of `carry`: make a segment of what the workflow run's own history tells."""

    run: RunRef


class Segment(Wire):
    """Result of `carry`."""

    reference: str
    records: int
    """How many steps and calls it tells of."""
    size_bytes: int
    """Compressed."""
