"""Messages of people to Claude: each is taken once, in order, while the run can still be told."""

from onward.messages import Message, PersonSaid, Sent
from workflows.state import RunState

_MOST_BYTES = 100_000
"""Of one message. A longer text is better put where a tool can read it."""
_MOST_UNSEEN_BYTES = 500_000
"""Of all that Claude has not seen: they go into one activity's input, which may have 2 MiB."""


def not_sendable(state: RunState, said: Message, update: str) -> str | None:
    """Say why a message cannot be taken; None if it can, or was."""
    if (said.id or update) in state.heard.messages:
        return None
    if state.outcome or state.cancel:
        how = f"has ended ({state.outcome})" if state.outcome else "is being cancelled"
        return f"the run {how}: Claude would not see it. A `fork` of the run goes on from there"
    if not said.text.strip():
        return "the message is empty; expected some text for Claude"
    size = _bytes(said.text)
    if size > _MOST_BYTES:
        return f"the message has {size:,} bytes, expected {_MOST_BYTES:,} at most"
    unseen = sum(_bytes(each.text) for each in state.unseen)
    if unseen + size > _MOST_UNSEEN_BYTES:
        return (
            f"{len(state.unseen):,} messages of {unseen:,} bytes wait for Claude's next step, "
            f"expected {_MOST_UNSEEN_BYTES:,} at most. Send it then"
        )
    return None


def take(state: RunState, said: Message, update: str) -> Sent:
    """Take a message for Claude's next step; one that was taken before only counts once."""
    name = said.id or update
    if name not in state.heard.messages:
        state.hear(PersonSaid(id=name, text=said.text))
    ids = [each.id for each in state.unseen]
    return Sent(id=name, unseen=ids.index(name) + 1 if name in ids else 0)


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
