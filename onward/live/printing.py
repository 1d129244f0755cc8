"""What happens in a run, for people: as it comes, and nothing that was printed is changed.

So it reads the same on a terminal and in a file, but for colours. What Claude and tools say is
indented: no line of theirs can pass for one of ours.
"""

from collections.abc import Callable
from typing import Any

from onward.console import Output
from onward.documents import waiting_line
from onward.figures import cost_line, count
from onward.invoked import typed
from onward.live.happenings import (
    Asked,
    CallEnded,
    Decided,
    Happening,
    Messaged,
    Paused,
    Replied,
    Restarted,
    Resumed,
    RunEnded,
    Stopping,
    Trouble,
    Unanswered,
    Waits,
    Watched,
    Wrote,
)
from onward.messages import Spend
from onward.retelling.pieces import speaker
from onward.transcript import is_summary

_RESULT_CHARS, _RESULT_LINES = 400, 5
_SAID_CHARS, _SAID_LINES = 2000, 20
_CHARS_A_DOT = 200
"""Of a call's arguments, which are not shown before the call is whole."""
_INDENT = "  "


class Printer:
    """Prints the happenings of one run."""

    def __init__(self, run_id: str, out: Output) -> None:
        self._run_id, self._out = run_id, out
        self._flow = Flow(out)
        self._block: tuple[str, int] | None = None
        self._arguments = 0
        self._messages = set[str]()
        self._prints: dict[type[Happening], Callable[[Any], None]] = {
            Watched: self._watched,
            Asked: self._asked,
            Wrote: self._wrote,
            Restarted: self._restarted,
            Replied: self._replied,
            Unanswered: self._unanswered,
            CallEnded: self._call_ended,
            Waits: self._waits,
            Decided: self._decided,
            Messaged: self._messaged,
            Paused: self._paused,
            Resumed: self._resumed,
            Stopping: self._stopping,
            Trouble: self._trouble,
            RunEnded: self._run_ended,
        }

    def show(self, happening: Happening) -> None:
        """Print what happened."""
        if not isinstance(happening, Wrote):
            self._block = None
        self._prints[type(happening)](happening)

    def ended(self) -> None:
        """End the line that was begun, if any: nothing more is printed."""
        self._flow.end()

    # ---- a reply

    def _wrote(self, wrote: Wrote) -> None:
        piece = wrote.fragment
        match piece.what:
            case "text" if piece.text:
                self._speaker(wrote, "Claude", "bold magenta")
                self._flow.indented(piece.text, "")
            case "thinking":
                self._speaker(wrote, "Claude, thinking", "dim")
                self._flow.indented(piece.text, "dim")
            case "tool" | "server_tool":
                doing = "prepares a call of" if piece.what == "tool" else "runs"
                self._flow.end()
                name = " ".join(piece.text.splitlines())  # a gateway lets any name pass
                self._flow.on(f"Claude {doing} {name} ", "dim")
                self._arguments = 0
            case "arguments":
                before, self._arguments = self._arguments, self._arguments + len(piece.text)
                dots = self._arguments // _CHARS_A_DOT - before // _CHARS_A_DOT
                self._flow.on("." * dots, "dim")
            case _:
                pass

    def _speaker(self, wrote: Wrote, who: str, style: str) -> None:
        """Say who is speaking, once for a block."""
        block = (wrote.step, wrote.fragment.block)
        if self._block != block:
            self._block = block
            self._flow.line(who, style)

    def _restarted(self, restarted: Restarted) -> None:
        text = f"── step {restarted.step}, attempt restarted: what it said above does not count ──"
        self._flow.line(text, "bold yellow")

    def _replied(self, replied: Replied) -> None:
        reply = replied.reply
        for call in reply.calls:
            refused = f" (not run: {call.refusal})" if call.refusal else ""
            self._flow.line(f"{call.call} {call.tool} {call.summary}{refused}", "bold yellow")
        stopped = "" if reply.stop_reason in _USUAL else f", stopped by {reply.stop_reason!r}"
        spent = f"{_cost(reply.spend)}; so far {_cost(replied.total)}"
        self._flow.line(f"step {replied.step}: {spent}{stopped}", "dim")

    def _unanswered(self, unanswered: Unanswered) -> None:
        self._flow.line(f"no reply to step {unanswered.step}: {unanswered.why}", "yellow")

    # ---- the rest

    def _watched(self, watched: Watched) -> None:
        if watched.earlier_steps:
            steps = count(watched.earlier_steps, "step")
            self._out.note(f"{steps} came before; --all tells them")

    def _asked(self, asked: Asked) -> None:
        what = ", a summary of what came before" if is_summary(asked.step) else ""
        self._flow.line(f"── step {asked.step}{what} ──", "dim")
        for message_id, text in asked.said:
            if text:
                again = message_id in self._messages
                who = f"{speaker(message_id)}{', as above' if again else ''}"
                self._flow.line(who, "bold cyan")
                self._flow.indented("" if again else self._cut(text, _SAID_CHARS, _SAID_LINES), "")

    def _call_ended(self, ended: CallEnded) -> None:
        took = "" if ended.took_s is None else f" in {ended.took_s:.1f} s"
        how = ended.how.replace("_", " ")
        self._flow.line(f"{ended.call} {ended.tool}: {how}{took}", _STYLES.get(ended.how, ""))
        self._flow.indented(self._cut(ended.text, _RESULT_CHARS, _RESULT_LINES), "dim")

    def _waits(self, waits: Waits) -> None:
        self._flow.line(waiting_line(self._run_id, waits.waiting), "bold yellow")

    def _decided(self, decided: Decided) -> None:
        said = " ".join(filter(None, (decided.call, decided.what, _by(decided.by))))
        alike = ", and those like it from now on" if decided.remember else ""
        self._flow.line(f"{said}{alike}{', with another input:' if decided.edit else ''}", "cyan")
        if decided.edit:
            self._flow.indented(f"{decided.edit}\ninstead of {decided.instead_of}", "")

    def _messaged(self, message: Messaged) -> None:
        self._messages.add(message.id)
        self._flow.line(f"{speaker(message.id)} {_by(message.by)}".strip(), "bold cyan")
        self._flow.indented(self._cut(message.text, _SAID_CHARS, _SAID_LINES), "")

    def _paused(self, paused: Paused) -> None:
        go_on = f"`{typed('resume', self._run_id)}` lets it go on"
        self._flow.line(f"{_asked('paused', paused.by, paused.reason)}. {go_on}", "yellow")

    def _resumed(self, resumed: Resumed) -> None:
        self._flow.line(_asked("resumed", resumed.by, resumed.reason), "yellow")

    def _stopping(self, stopping: Stopping) -> None:
        what = "asked to stop after this step" if stopping.after_step else "asked to stop"
        self._flow.line(_asked(what, stopping.by, stopping.reason), "yellow")

    def _trouble(self, trouble: Trouble) -> None:
        self._flow.end()
        self._out.warn(trouble.text)

    def _run_ended(self, _: RunEnded) -> None:
        self.ended()

    def _cut(self, text: str, chars: int, lines: int) -> str:
        kept = "\n".join(text[:chars].splitlines()[:lines])
        left = len(text) - len(kept)
        if left <= 1:
            return text
        return f"{kept}\n… {left:,} characters more: `{typed('transcript', self._run_id)}`"


_USUAL = frozenset({"tool_use", "end_turn"})
_STYLES = {"done": "green", "failed": "red", "in_doubt": "bold red", "not_run": "yellow"}


class Flow:
    """Writes lines, and lines that come in pieces, one after another."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._at_start = True

    def line(self, text: str, style: str) -> None:
        """Write a line of its own."""
        self.end()
        self._out.styled(" ".join(text.splitlines()), style)

    def on(self, text: str, style: str) -> None:
        """Write on in the line that was begun."""
        if text:
            self._out.written(text, style)
            self._at_start = False

    def indented(self, text: str, style: str) -> None:
        """Write a piece of a text, each of its lines indented."""
        for number, part in enumerate(text.split("\n")):
            if number:
                self._out.written("\n")
                self._at_start = True
            if part:
                self.on(f"{_INDENT}{part}" if self._at_start else part, style)

    def end(self) -> None:
        """End the line that was begun."""
        if not self._at_start:
            self._out.written("\n")
            self._at_start = True


def _asked(what: str, by: str, reason: str) -> str:
    said = " ".join(filter(None, (what, _by(by))))
    return f"{said}: {reason}" if reason else said


def _by(by: str) -> str:
    return f"by {by}" if by else ""


def _cost(spend: Spend) -> str:
    return f"{spend.tokens:,} tokens, {cost_line(spend)}"
