"""What a run knows at any moment: pure data, no I/O, no Temporal."""

from dataclasses import dataclass, field

from onward import json_text
from onward.messages import (
    Addition,
    CancelRequest,
    ClaudeReply,
    Doubt,
    GiveUp,
    Head,
    Limits,
    Opening,
    Outcome,
    PersonSaid,
    RunRequest,
    RunResult,
    RunStatus,
    Spend,
    Waiting,
    Witness,
)
from onward.transcript import last_text, tool_uses
from onward.wording import how_to_answer
from workflows.waiting import WaitingCalls

_INPUT_BYTES = 4096


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
    """Claude's last message, JSON text."""
    calling: bool = False
    """The calls of that message are not all answered."""
    spend: Spend = field(default_factory=Spend)
    asking: str = ""
    """Step that Claude is being asked, while nothing says yet what it costs."""
    running_s: float = 0.0
    """Seconds that Claude and tools worked, without waiting for servers, workers and people."""
    failing: int = 0
    """Steps in a row in which every call failed."""
    in_doubt: tuple[str, ...] = ()
    """Calls whose outcome nobody knows, and Claude was told so."""
    doubts: dict[str, Doubt] = field(default_factory=dict[str, Doubt])
    """Calls whose outcome a person is asked for."""
    waiting: WaitingCalls = field(default_factory=WaitingCalls)
    doing: str = "starting"
    cancel: CancelRequest | None = None
    outcome: Outcome | None = None

    @classmethod
    def of(cls, request: RunRequest) -> "RunState":
        """State of a run that has just been asked for."""
        return cls(request, additions=(PersonSaid(id="prompt", text=request.prompt),))

    def opened(self, opening: Opening) -> None:
        """Take what `begin` fixed for the whole run."""
        self.opening, self.witness, self.head = opening, opening.witness, opening.head

    def replied(self, reply: ClaudeReply) -> None:
        """Take Claude's reply to the user turn that is now frozen."""
        self.head, self.witness, self.message = reply.head, reply.witness, reply.message
        self.steps += 1
        self.calling = True
        self.running_s += reply.took_s
        self.asking = ""
        self.spend += reply.spend
        # A recorded reply may have answered an earlier turn: what that one lacked is said next.
        self.additions = tuple(
            item
            for item in self.additions
            if isinstance(item, PersonSaid) and item.id not in reply.turn_ids
        )

    def gave_up(self, told: GiveUp | None) -> None:
        """Take the spend of a step that an activity gave up; None: it had no chance to say it."""
        if told is not None:
            self.spend += told.spend
            self.asking = ""

    def answered(self, results: list[Addition], *, all_failed: bool) -> None:
        """Take the results of a step's calls, in the order of the calls."""
        self.additions = (*results, *self.additions)
        self.calling = False
        self.failing = self.failing + 1 if all_failed else 0

    def doubt(self, call: str) -> None:
        """Note that a call's effect may or may not have happened."""
        self.in_doubt = (*self.in_doubt, call)

    @property
    def limits(self) -> Limits:
        """The run's limits; the defaults until `begin` has fixed them."""
        return self.opening.limits if self.opening else Limits()

    def result(self, outcome: Outcome, detail: str = "") -> RunResult:
        """Sum up the run as it stands."""
        return RunResult(
            outcome=outcome,
            text=last_text(self.message) if self.message else "",
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
        return self.steps if self.calling else self.steps + 1

    def status(self) -> RunStatus:
        """Answer the query `status`."""
        going = "waiting" if self.waiting.shown else "running"
        state = "ended" if self.outcome else "cancelling" if self.cancel else going
        return RunStatus(
            agent=self.request.agent,
            state=state,
            step=str(self.step),
            doing=self.doing,
            outcome=self.outcome,
            limits=self.opening.limits if self.opening else None,
            price_known=self.opening.price_known if self.opening else None,
            spend=self.spend,
            in_doubt=self.all_in_doubt,
            waiting=tuple(self._whole(each) for each in self.waiting.shown.values()),
            workspace=self.request.workspace,
        )

    def details(self, run: str) -> str:
        """Describe the run in Markdown, for the Temporal UI."""
        spend = self.spend
        requests = f"{spend.requests} request{'' if spend.requests == 1 else 's'}"
        spent = f"${spend.cost_usd:.4f} in {requests}, {spend.tokens:,} tokens"
        where = f"**{self.request.agent}** is at step {self.step}: {self.doing}"
        lines = [where, "", f"- spent: {spent}"]
        if self.in_doubt:
            lines.append(f"- in doubt: {', '.join(self.in_doubt)}")
        lines += [_waits(each, run) for each in self.waiting.shown.values()]
        return "\n".join(lines)

    def _whole(self, waiting: Waiting) -> Waiting:
        # Read from the message at each look: kept in `Waiting`, history would hold it once more.
        number = int(waiting.call.rpartition(".")[2])
        given = tool_uses(self.message)[number - 1].get("input", {})
        text = json_text.printable(json_text.dumps(given))
        return waiting.model_copy(update={"input": _bounded(text)})


def _bounded(text: str) -> str:
    whole = text.encode()
    kept = whole[:_INPUT_BYTES].decode(errors="ignore")
    return text if kept == text else f"{kept}… (cut: it has {len(whole):,} bytes)"


def _waits(call: Waiting, run: str) -> str:
    asked = "needs an approval" if call.kind == "approval" else "is in doubt"
    # Claude's words must not end the code span, and be read as ours.
    summary = call.summary.replace("`", "'")
    return (
        f"- **waits for a person**: {call.call} `{call.tool}` (`{summary}`) {asked}: "
        f"{call.why}. {how_to_answer(run, call)}"
    )
