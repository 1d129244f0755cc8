"""What a run knows at any moment: pure data, no I/O, no Temporal."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from onward.messages import (
    Addition,
    CallResult,
    CancelRequest,
    ClaudeReply,
    ContextUse,
    Doubt,
    GiveUp,
    Head,
    Limits,
    Opening,
    Outcome,
    Paused,
    PersonSaid,
    PreparedCall,
    Prompt,
    Remembered,
    ResultOf,
    ResultWritten,
    RunRequest,
    RunResult,
    Spend,
    Witness,
)
from onward.transcript import last_text, results_only

from .heard import Heard
from .labels import step_told
from .waiting import WaitingCalls

Going = Literal["running", "waiting", "paused", "cancelling"]


@dataclass
class RunState:
    """State of one run. Only the workflow changes it, one step at a time."""

    request: RunRequest
    additions: tuple[Addition, ...]
    """What the next user turn adds: the prompt first, then results and people's messages."""
    opening: Opening | None = None
    witness: Witness | None = None
    head: Head | None = None
    steps: int = 0
    """Replies that are part of the transcript."""
    message: str = ""
    """Claude's last message, JSON text; empty where an earlier workflow run of the chain got it."""
    text: str = ""
    """Claude's last words."""
    reply: ClaudeReply | None = None
    """The reply whose calls are not all answered."""
    results: dict[str, Addition] = field(default_factory=dict[str, Addition])
    """What Claude will be told of that reply's calls, by call, as they end."""
    edits: dict[str, str] = field(default_factory=dict[str, str])
    """Inputs that people gave that reply's calls instead of Claude's, JSON text, by call."""
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    """Arguments of that reply's calls where `message` is empty, as people see them, by call."""
    spend: Spend = field(default_factory=Spend)
    asking: str = ""
    """Step that Claude is being asked, while nothing says yet what it costs."""
    running_s: float = 0.0
    """Seconds that Claude and tools worked, without waiting for servers, workers and people."""
    failing: int = 0
    """Steps in a row in which every call failed, and the calls were the same."""
    in_doubt: tuple[str, ...] = ()
    """Calls whose outcome nobody knows, and Claude was told so."""
    doubts: dict[str, Doubt] = field(default_factory=dict[str, Doubt])
    """Calls whose outcome a person is asked for."""
    waiting: WaitingCalls = field(default_factory=WaitingCalls)
    heard: Heard = field(default_factory=Heard)
    remembered: tuple[Remembered, ...] = ()
    """What a person approved for the rest of the run."""
    notified: tuple[str, ...] = ()
    """What waits, and the app was told so."""
    telling: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Tasks that tell the app so: Python keeps none that nobody holds."""
    paused: Paused | None = None
    resting: bool = False
    """It is paused, and its step is done."""
    results_only: bool = False
    """A tool of the API's own has no result yet: people's messages wait for the turn after."""
    raised: Limits | None = None
    """The limits, where a person changed them."""
    began_ms: int = 0
    """When the run was begun, Unix ms."""
    people_s: float = 0.0
    """Seconds that the run waited for people, up to `people_since_ms`."""
    people_since_ms: int = 0
    """Since when people are waited for and it is not counted yet; 0: they are not."""
    repeated: tuple[str, ...] = ()
    """Fingerprints of the calls of the last step, where all of them failed."""
    pauses: int = 0
    """Replies in a row in which the API paused Claude's turn."""
    cuts: int = 0
    """Replies in a row that were cut off at `max_tokens`."""
    unfinished: bool = False
    """What Claude says next goes on from its last words."""
    redos: int = 0
    """Tries of the step under way: each has a step id of its own."""
    summaries: int = 0
    """Tries to make a summary before it, likewise."""
    max_tokens: int = 0
    """Of replies, once one was cut off; 0: the agent's own."""
    replied_ms: int = 0
    """When Claude answered last; 0: not in this workflow run."""
    longest_gap_s: float = 0.0
    """The longest time between a reply and the request after it."""
    context: ContextUse | None = None
    vain_summary: int | None = None
    """Steps that were done when Claude was asked for a summary in vain."""
    segments: tuple[str, ...] = ()
    """References of what earlier workflow runs of the chain recorded, oldest first."""
    reset_lineage: bool = False
    """One of those was made by a reset."""
    read_bytes: int = 0
    """Conversation in this workflow run's history: a replay reads it again."""
    working: int = 0
    """Activities under way."""
    carrying: bool = False
    """The run is about to continue as new: what a person settles now would be in no segment."""
    doing: str = "starting"
    told: str = ""
    """What the last step took, in words."""
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    """Search attributes as they were set last."""
    cancel: CancelRequest | None = None
    outcome: Outcome | None = None

    def opened(self, opening: Opening) -> None:
        """Take what `begin` fixed for the whole run."""
        self.opening, self.witness, self.head = opening, opening.witness, opening.head

    def replied(self, reply: ClaudeReply) -> None:
        """Take Claude's reply to the user turn that is now frozen."""
        self.head, self.witness, self.message = reply.head, reply.witness, reply.message
        self.context = reply.context
        self.reply, self.results, self.inputs, self.edits = reply, {}, {}, {}
        self.results_only = results_only(reply.message)
        self.steps, self.redos, self.summaries = self.steps + 1, 0, 0
        self._spoken(reply)
        # A recorded reply may have answered an earlier turn: what that one lacked is said next.
        self.additions = tuple(
            item
            for item in self.additions
            if isinstance(item, Prompt | PersonSaid) and item.id not in reply.turn_ids
        )

    def _spoken(self, reply: ClaudeReply) -> None:
        """Take Claude's words: what it says after a pause or a cut belongs to what was before."""
        stopped, words = reply.stop_reason, last_text(reply.message)
        if stopped != "refusal":  # what it said before it declined is not to be used
            self.text = self.text + words if self.unfinished else words
        self.pauses = self.pauses + 1 if stopped == "pause_turn" else 0
        self.cuts = self.cuts + 1 if stopped == "max_tokens" else 0
        self.unfinished = self.keeps_rules_of(4) and (self.pauses > 0 or self.cuts > 0)

    def put_aside(self, max_tokens: int) -> None:
        """Take nothing of a reply: the step is asked again, `max_tokens` for its reply."""
        self.cuts, self.redos = self.cuts + 1, self.redos + 1
        self.max_tokens = max_tokens

    def edit(self, call: PreparedCall, edit: str) -> None:
        """Let a call of the reply run as a person edited it, if they did change it."""
        if self.reply is None or not call.asked:
            return
        calls = tuple(call if each.call == call.call else each for each in self.reply.calls)
        self.reply = self.reply.model_copy(update={"calls": calls})
        self.edits[call.call] = edit

    def hear(self, message: PersonSaid) -> None:
        """Take a person's message, for Claude's next step."""
        self.heard.message(message.id)
        self.additions = (*self.additions, message)

    @property
    def unseen(self) -> tuple[PersonSaid, ...]:
        """Messages that people sent and Claude has not seen."""
        said = (item for item in self.additions if isinstance(item, PersonSaid))
        return tuple(item for item in said if item.id in self.heard.messages)

    @property
    def next_turn(self) -> tuple[Addition, ...]:
        """What the next user turn adds."""
        if not self.results_only:
            return self.additions
        return tuple(item for item in self.additions if not isinstance(item, Prompt | PersonSaid))

    def go_on(self) -> None:
        """Let the conversation go on after a reply that asks for nothing: people said more."""
        self.reply = None

    def go_on_after(self, addition: Addition) -> None:
        """Tell Claude something after a reply that asks for nothing."""
        self.reply = None
        self.additions = (*self.additions, addition)

    def summed_up(self, reply: ClaudeReply) -> None:
        """Take a summary: it stands in place of the conversation before it, and is no step."""
        self.head, self.witness, self.context = reply.head, reply.witness, reply.context

    def spent(self, reply: ClaudeReply) -> None:
        """Take what a reply cost, whatever becomes of it."""
        self.read_bytes += len(reply.message)
        self.running_s += reply.took_s
        self.people_s += reply.people_s
        self.asking, self.told = "", step_told(reply.head.step, reply.spend)
        self.spend += reply.spend

    def gave_up(self, told: GiveUp | None) -> None:
        """Take the spend of a step that an activity gave up; None: it had no chance to say it."""
        if told is not None:
            self.spend += told.spend
            self.asking = ""

    def ran(self, result: CallResult) -> None:
        """Take what it took to run a call."""
        self.running_s += result.took_s
        self.read_bytes += len(result.content)

    def answered(self, reply: ClaudeReply) -> None:
        """All calls of the reply have ended: Claude is told of them in their order."""
        results = [self.results[call.call] for call in reply.calls]
        # A paused turn asks for no call, so none failed.
        failed = bool(results) and all(_failed(item) for item in results)
        self.additions = (*results, *self.additions)
        self.reply, self.results, self.edits = None, {}, {}
        self._failed(reply if failed else None)
        self.waiting.clear()

    def _failed(self, reply: ClaudeReply | None) -> None:
        """Count the steps in a row of which every call failed; of 0.4 on, of the same calls."""
        asked = tuple(sorted(call.fingerprint for call in reply.calls)) if reply else ()
        again = asked == self.repeated or not self.keeps_rules_of(4)
        self.failing = (self.failing + 1 if again else 1) if reply else 0
        self.repeated = asked

    def doubt(self, call: str) -> None:
        """Note that a call's effect may or may not have happened."""
        self.in_doubt = (*self.in_doubt, call)

    def keeps_rules_of(self, release: int) -> bool:
        """Say whether the run was begun by that minor release or a later one."""
        return self.opening is not None and self.opening.rules >= release

    @property
    def limits(self) -> Limits:
        """The run's limits; the defaults until `begin` has fixed them."""
        return self.raised or (self.opening.limits if self.opening else Limits())

    def result(self, outcome: Outcome, detail: str = "") -> RunResult:
        """Sum up the run as it stands."""
        return RunResult(
            outcome=outcome,
            text=self.text,
            detail=detail,
            steps=self.steps,
            in_doubt=self.all_in_doubt,
            unseen=self.unseen,
            spend=self.spend,
        )

    @property
    def all_in_doubt(self) -> tuple[str, ...]:
        """Calls whose effect may or may not have happened."""
        return (*self.in_doubt, *self.doubts)

    @property
    def step(self) -> int:
        """Number of the step under way: from its request to Claude to its last result."""
        return self.steps if self.reply else self.steps + 1

    @property
    def status_word(self) -> str:
        """How the run is, or how it ended, in one word."""
        return self.outcome or self.going

    @property
    def going(self) -> Going:
        """How a run is that has not ended."""
        if self.cancel:
            return "cancelling"
        if self.paused:
            return "paused"
        return "waiting" if self.waiting.shown else "running"

    @property
    def waits_for_people(self) -> bool:
        """Nothing goes on until a person says something."""
        return bool(self.waiting.shown) or self.resting


def _failed(item: Addition) -> bool:
    return isinstance(item, ResultOf | ResultWritten) and item.is_error
