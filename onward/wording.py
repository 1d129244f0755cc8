"""How a call that waits or is in doubt, and a window that fills, are put to people and Claude."""

import shlex
from collections.abc import Iterable
from datetime import UTC, datetime

from onward.context_window import MAX_BODY_BYTES
from onward.invoked import PROGRAM
from onward.messages import ContextUse, Paused, Waiting

_UNKNOWN = "OUTCOME UNKNOWN"
UNDECIDED = "could not be decided"
"""Of a reason to ask: a rule failed, so nobody's silence and no memory may count as a yes."""
_NOBODY = "Nobody answered within"
_RAISED_BY = {
    "limit_steps": "--max-steps N",
    "limit_cost": "--max-cost-usd X",
    "limit_tokens": "--max-tokens N --max-output-tokens N",
    "limit_time": "--max-minutes N",
    "limit_repeats": "--max-repeats N",
}
"""Option of `limit` for the limit of each outcome."""
_CODES = {
    "owner_lost": "its worker went away while it was under way",
    "records_lost": "Redis lost its records; whether it was sent is not known",
    "result_lost": "Redis lost its result",
}


def in_words(why: str) -> str:
    """Say in words why a call is in doubt; the ledger's own reasons are codes."""
    return _CODES.get(why, why)


def says_unknown(told: str) -> bool:
    """Say whether Claude was told so of a call in doubt."""
    # After the note on an edited call, if any.
    return told.startswith(_UNKNOWN) or f"\n\n{_UNKNOWN}:" in told


def nobody_answered(within_s: float) -> str:
    """Say why a call that needed an approval was denied, for Claude."""
    return f"{_NOBODY} {within_s:g} s."


def says_nobody_answered(told: str) -> bool:
    """Say whether Claude was told so of a call."""
    return _NOBODY in told


def outcome_unknown(why: str) -> str:
    """Tell Claude of a call in doubt; `why` may be a code of the ledger's."""
    return (
        f"{_UNKNOWN}: this call may or may not have happened ({in_words(why)}). Do not repeat "
        "it. Find out with another tool whether it happened, or ask the person."
    )


def edited_note(edit: str) -> str:
    """Tell Claude, before what it is told of a call, of another input; `edit` is JSON text."""
    return f"A person changed this call. What follows is about this input, not yours: {edit}"


def how_full(use: ContextUse) -> str:
    """Say how full the context window is, for people."""
    part = f" of {use.window:,} tokens ({use.tokens / use.window:.0%})" if use.window else " tokens"
    return f"{use.tokens:,}{part}, {use.body_bytes / 1e6:.1f} MB of {MAX_BODY_BYTES // 10**6}"


class Troubles:
    """What holds something up: each is news once, until it is over."""

    def __init__(self) -> None:
        self._known = frozenset[str]()

    def new(self, troubles: Iterable[str]) -> list[str]:
        """Say which of the troubles that there are now were not there before."""
        # The time to the next try, at its end, changes with each look; the trouble is the same one.
        causes = {text.rsplit(";", 1)[0]: text for text in troubles}
        found = [text for cause, text in causes.items() if cause not in self._known]
        self._known = frozenset(causes)
        return found


def how_to_answer(run: str, call: Waiting, program: str = PROGRAM) -> str:
    """Say what a person types to decide about a call, or a limit, that waits.

    `program` is how that person starts commands, where that is known.
    """
    if call.kind == "limit":
        option = _RAISED_BY.get(call.tool, "--help")
        return (
            f"Raise it with `{program} limit {shlex.quote(run)} {option}`, or end the run "
            f"with `{program} cancel {shlex.quote(run)}`"
        )
    typed = f"{shlex.quote(run)} {call.call}"
    if call.kind == "approval":
        said = f'Say `{program} approve {typed}`, or `{program} deny {typed} --why "…"`'
        return said + _until(call)
    return (
        f"Look whether it happened, then say `{program} resolve {typed} done` "
        "(or `failed`, or `retry`)"
    )


def _until(call: Waiting) -> str:
    if not call.expires_ms:
        return ""
    # In UTC: a workflow says it too, and must say the same on every worker.
    until = datetime.fromtimestamp(call.expires_ms / 1000, UTC)
    ends = "denied" if call.otherwise == "deny" else "approved"
    return f"; without an answer by {until:%Y-%m-%d %H:%M} UTC it is {ends}"


def paused_text(paused: Paused) -> str:
    """Say that a run is paused, since when, by whom, and why."""
    since = datetime.fromtimestamp(paused.since_ms / 1000, UTC).astimezone()
    by = f" by {paused.by}" if paused.by else ""
    why = f": {paused.reason}" if paused.reason else ""
    return f"paused since {since:%Y-%m-%d %H:%M %Z}{by}{why}"
