"""What a run knows at any moment: pure data, no I/O, no Temporal."""

from dataclasses import dataclass, field

from onward import json_text
from onward.messages import (
    Addition,
    Approval,
    CallResult,
    CancelRequest,
    Carried,
    ClaudeReply,
    ContextUse,
    Denial,
    Doubt,
    GiveUp,
    HalfStep,
    Head,
    Limits,
    Opening,
    Outcome,
    PersonSaid,
    Prompt,
    Resolution,
    ResultOf,
    ResultWritten,
    RunRequest,
    RunResult,
    RunStatus,
    Spend,
    Waiting,
    Witness,
)
from onward.transcript import last_text, tool_uses
from onward.wording import how_full, how_to_answer
from workflows.waiting import Decision, WaitingCalls

_INPUT_BYTES = 4096
_FRESH = frozenset({"segments", "reset_lineage", "opening"})
"""Fields of the same name in `Carried` that are not just handed on."""
_CARRIED = _FRESH | {
    "witness", "head", "additions", "steps", "text", "spend", "running_s", "failing", "in_doubt",
    "context", "vain_summary", "raised", "began_ms", "people_s", "repeated", "pauses", "cuts",
    "unfinished", "redos", "summaries", "max_tokens", "longest_gap_s",
}  # fmt: skip
"""Fields of the same name in `Carried`."""


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
    cancel: CancelRequest | None = None
    outcome: Outcome | None = None

    @classmethod
    def of(cls, request: RunRequest) -> "RunState":
        """State of a run that has just been asked for, or goes on from another workflow run."""
        state = cls(request, additions=(Prompt(),))
        if request.carried:
            state.resume(request.carried)
        return state

    def resume(self, carried: Carried) -> None:
        """Take over what another workflow run knew."""
        for name in _CARRIED:
            setattr(self, name, getattr(carried, name))
        self.doubts = dict(carried.doubts)
        if carried.half:
            self.reply, self.results = carried.half.reply, dict(carried.half.results)
            self.inputs = carried.half.inputs
        decided: dict[str, Decision] = {**carried.approved, **carried.denied, **carried.settled}
        self.waiting.resume(carried.waiting, decided)

    def carry(self, segment: str, *, reset_lineage: bool) -> Carried:
        """Return what the next workflow run of the chain must know; `segment` holds the rest."""
        if self.opening is None or self.witness is None or self.head is None:
            raise ValueError("found no opening; expected a run that has begun")
        waiting = self.waiting
        return Carried(
            **{name: getattr(self, name) for name in _CARRIED - _FRESH},
            segments=(*self.segments, segment),
            reset_lineage=reset_lineage,
            opening=self.opening.model_copy(update={"frozen": ""}),
            doubts=self.doubts,
            waiting=tuple(waiting.shown.values()),
            approved=waiting.of_kind(Approval),
            denied=waiting.of_kind(Denial),
            settled=waiting.of_kind(Resolution),
            half=self._half(),
        )

    def _half(self) -> HalfStep | None:
        if self.reply is None:
            return None
        bare = self.reply.model_copy(update={"message": "", "turn": "", "results": ()})
        unanswered = [c.call for c in self.reply.calls if c.call not in self.results]
        inputs = {call: self._input(call) for call in unanswered}
        return HalfStep(reply=bare, results=self.results, inputs=inputs)

    def opened(self, opening: Opening) -> None:
        """Take what `begin` fixed for the whole run."""
        self.opening, self.witness, self.head = opening, opening.witness, opening.head

    def replied(self, reply: ClaudeReply) -> None:
        """Take Claude's reply to the user turn that is now frozen."""
        self.head, self.witness, self.message = reply.head, reply.witness, reply.message
        self.context = reply.context
        self.reply, self.results, self.inputs = reply, {}, {}
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
        self.asking = ""
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
        self.reply, self.results = None, {}
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

    def status(self) -> RunStatus:
        """Answer the query `status`."""
        going = "waiting" if self.waiting.shown else "running"
        state = "ended" if self.outcome else "cancelling" if self.cancel else going
        return RunStatus(
            agent=self.request.agent,
            state=state,
            step=str(self.step),
            steps=self.steps,
            doing=self.doing,
            outcome=self.outcome,
            limits=self.limits if self.opening else None,
            price_known=self.opening.price_known if self.opening else None,
            spend=self.spend,
            in_doubt=self.all_in_doubt,
            waiting=tuple(self._with_input(each) for each in self.waiting.shown.values()),
            workspace=self.request.workspace,
            context=self.context,
        )

    def details(self, run: str, prompt: str) -> str:
        """Describe the run in Markdown, for the Temporal UI."""
        spend = self.spend
        requests = _count(spend.requests, "request")
        spent = f"${spend.cost_usd:.4f} in {requests}, {spend.tokens:,} tokens"
        now = f"is at step {self.step}: {self.doing}"
        ended = f"ended as `{self.outcome}`, after {_count(self.steps, 'step')}"
        where = f"**{self.request.agent}** {ended if self.outcome else now}"
        lines = [where, "", f"- spent: {spent}"]
        if self.context:
            lines.append(f"- context window: {how_full(self.context)}")
        if self.segments:
            # Temporal shows a run's summary only until it first continues as new.
            lines.insert(0, f"{_quoted(prompt)}\n")
        if self.in_doubt:
            lines.append(f"- in doubt: {', '.join(self.in_doubt)}")
        lines += [_waits(each, run) for each in self.waiting.shown.values()]
        return "\n".join(lines)

    def _with_input(self, waiting: Waiting) -> Waiting:
        # At each look: kept in `Waiting`, which `approve` returns, history would hold it once more.
        if waiting.kind == "limit":
            return waiting
        return waiting.model_copy(update={"input": self._input(waiting.call)})

    def _input(self, call: str) -> str:
        if call in self.inputs:
            return self.inputs[call]
        number = int(call.rpartition(".")[2])
        given = tool_uses(self.message)[number - 1].get("input", {})
        return _bounded(json_text.printable(json_text.dumps(given)))


def _failed(item: Addition) -> bool:
    return isinstance(item, ResultOf | ResultWritten) and item.is_error


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _quoted(prompt: str) -> str:
    return "\n".join(f"> {line}" for line in prompt.splitlines())


def _bounded(text: str) -> str:
    whole = text.encode()
    kept = whole[:_INPUT_BYTES].decode(errors="ignore")
    return text if kept == text else f"{kept}… (cut: it has {len(whole):,} bytes)"


def _waits(call: Waiting, run: str) -> str:
    if call.kind == "limit":
        return f"- **waits for a person** at a limit: {call.why}. {how_to_answer(run, call)}"
    asked = "needs an approval" if call.kind == "approval" else "is in doubt"
    # Claude's words must not end the code span, and be read as ours.
    summary = call.summary.replace("`", "'")
    return (
        f"- **waits for a person**: {call.call} `{call.tool}` (`{summary}`) {asked}: "
        f"{call.why}. {how_to_answer(run, call)}"
    )
