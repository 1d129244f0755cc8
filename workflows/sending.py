"""Messages of people to Claude: each is taken once, in order, while the run can still be told."""

from collections.abc import Sequence

from onward.messages import Message, PersonSaid, Prompt, Sent
from onward.names import FORK_NOTICE, GO_ON_NOTICE, MAX_SAID_BYTES

from .state import RunState

_OURS = frozenset({Prompt().id, FORK_NOTICE})
_MOST_ID_CHARS = 200
_MOST_UNSEEN = 1000
"""Fewer than the ids that a run keeps: one that it forgot would no longer count as a person's."""
_MOST_UNSEEN_BYTES = 500_000
"""Of all that Claude has not seen: they go into one activity's input, which may have 2 MiB."""


def not_sendable(state: RunState, said: Message, update: str) -> str | None:
    """Say why a message cannot be taken; None if it can, or was."""
    name = said.id or update
    if name in state.heard.messages:
        return None
    if state.outcome or state.cancel:
        how = f"has ended ({state.outcome})" if state.outcome else "is being cancelled"
        return f"the run {how}: Claude would not see it. A `fork` of the run goes on from there"
    return _unfit(name, said.text) or _too_much(state.unseen, said.text)


def _unfit(name: str, text: str) -> str | None:
    ours = name in _OURS or name.startswith(GO_ON_NOTICE)
    if ours or len(name) > _MOST_ID_CHARS or not name.isprintable():
        return (
            f"found the message id {name[:_MOST_ID_CHARS]!r}; expected {_MOST_ID_CHARS} printable "
            "characters at most, and none that Onward itself uses"
        )
    if not text.strip():
        return "the message is empty; expected some text for Claude"
    if (size := _bytes(text)) > MAX_SAID_BYTES:
        return f"the message has {size:,} bytes, expected {MAX_SAID_BYTES:,} at most"
    return None


def _too_much(unseen: Sequence[PersonSaid], text: str) -> str | None:
    size = sum(_bytes(each.text) for each in unseen)
    if size + _bytes(text) <= _MOST_UNSEEN_BYTES and len(unseen) < _MOST_UNSEEN:
        return None
    return (
        f"{len(unseen):,} messages of {size:,} bytes wait for Claude's next step, "
        f"expected {_MOST_UNSEEN:,} of {_MOST_UNSEEN_BYTES:,} at most. Send it then"
    )


def take(state: RunState, said: Message, update: str) -> Sent:
    """Take a message for Claude's next step; one that was taken before only counts once."""
    name = said.id or update
    if name not in state.heard.messages:
        state.hear(PersonSaid(id=name, text=said.text))
    ids = [each.id for each in state.unseen]
    return Sent(id=name, unseen=ids.index(name) + 1 if name in ids else 0)


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
