"""What this server sent in each conversation, and which conversation each reply belongs to.

Newer models refuse a request whose system prompt, tools or any earlier message is not what it was
when an assistant turn was made. So a reply is kept under the digest of the request it answered,
and an assistant turn is looked up under the digest of all that comes before it. A conversation
may fork (another last message, another reply), as long as every branch is true to itself.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onward.testing.messages_api.literal_json import Object, canonical
from onward.testing.messages_api.turns import blocks_of, messages_of, role_of, system_of

THINKING = frozenset({"thinking", "redacted_thinking"})

_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
"""After these, blocks may be left out: a cut tool call cannot be answered."""

_CONTINUED = frozenset({"pause_turn", "compaction"})
"""After these, the request may end with the assistant turn."""


@dataclass(frozen=True)
class Sent:
    """An assistant turn as this server sent it, or as a client first told it."""

    blocks: tuple[str, ...]
    """Canonical text of each."""
    thinking: tuple[str, ...]
    blank: frozenset[str]
    """Text blocks without text: sent by Claude, refused when sent back."""
    stop_reason: str | None

    @property
    def may_continue(self) -> bool:
        """The turn may be the last message of a request."""
        return self.stop_reason in _CONTINUED

    def is_echoed_by(self, blocks: Sequence[str]) -> bool:
        """Tell whether a client that sends these blocks sends this turn unchanged."""
        if self.stop_reason in _CUT_SHORT:
            rest = iter(self.blocks)
            kept = all(block in rest for block in blocks)  # a subsequence
            return kept and all(block in blocks for block in self.thinking)
        left = [block for block in self.blocks if block not in self.blank]
        return [block for block in blocks if block not in self.blank] == left


@dataclass
class Conversation:
    """All that was sent in one conversation."""

    key: str
    owners: dict[str, set[str]]
    """By id or signature of a block: the conversations in which it was sent."""
    replies: dict[str, list[Sent]] = field(default_factory=dict[str, list[Sent]])
    """By digest of the request that each answered."""
    blocks: set[str] = field(default_factory=set[str])
    """Canonical text of every block that was sent."""
    unreadable: set[str] = field(default_factory=set[str])
    """Digests of requests answered by recordings that this server cannot fold."""
    parts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The latest request, named part by part, to say what a later one changed."""

    @property
    def begun(self) -> bool:
        """Something was sent; until then, a client may bring a past of its own."""
        return bool(self.replies or self.unreadable)

    def replied(self, body: Object, message: Object | None) -> None:
        """Remember the reply to a request. None: it was sent, but cannot be compared later."""
        if not self.begun:
            self._believe_past(body)
        self.parts = list(parts_of(body))
        digest = _last_digest(body)
        if message is None:
            self.unreadable.add(digest)
        else:
            self._keep(digest, blocks_of(message), message.get("stop_reason"))

    def goes_on_from(self, before: "Conversation", asked: Object, summary: Object) -> None:
        """Begin with a summary of what was asked, which a reply to that may follow."""
        first: Object = {"role": "assistant", "content": summary["content"]}
        start, summed_up = ({**asked, "messages": said} for said in ([], [first]))
        self._keep(_last_digest(start), blocks_of(first), summary["stop_reason"])
        if answers := before.replies.get(_last_digest(asked)):
            self.replies[_last_digest(summed_up)] = list(answers)
        self.blocks |= before.blocks

    def is_of_another(self, blocks: Sequence[Object]) -> bool:
        """Tell whether a block was made in other conversations and never in this one."""
        owners = [self.owners.get(mark, set[str]()) for block in blocks for mark in _marks(block)]
        return any(owner and self.key not in owner for owner in owners)

    def changed_part(self, body: Object) -> str:
        """Return the first part of a request that differs from the request before it."""
        for (name, text), (_, before) in zip(parts_of(body), self.parts, strict=False):
            if text != before:
                return name
        return "messages"

    def _believe_past(self, body: Object) -> None:
        for message, digest in zip(messages_of(body), prefix_digests(body), strict=False):
            if role_of(message) == "assistant":
                self._keep(digest, blocks_of(message), None)

    def _keep(self, digest: str, blocks: list[Object], stop_reason: str | None) -> None:
        texts = [canonical(block) for block in blocks]
        pairs = list(zip(blocks, texts, strict=True))
        sent = Sent(
            blocks=tuple(texts),
            thinking=tuple(text for block, text in pairs if block.get("type") in THINKING),
            blank=frozenset(text for block, text in pairs if is_blank(block)),
            stop_reason=stop_reason,
        )
        self.blocks.update(texts)
        for mark in (mark for block in blocks for mark in _marks(block)):
            self.owners.setdefault(mark, set()).add(self.key)
        known = self.replies.setdefault(digest, [])
        if sent not in known:
            known.append(sent)


class Memory:
    """The conversations of one server, by id."""

    def __init__(self) -> None:
        self._conversations: dict[str, Conversation] = {}
        self._owners: dict[str, set[str]] = {}

    def conversation(self, key: str) -> Conversation:
        """Return the conversation of that id, a new one if it is not known."""
        return self._conversations.setdefault(key, Conversation(key, self._owners))


def _marks(block: Object) -> list[str]:
    return [str(block[name]) for name in ("id", "signature") if block.get(name)]


def is_blank(block: Object) -> bool:
    """Tell whether a block is text without text."""
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _last_digest(body: Object) -> str:
    return list(prefix_digests(body))[-1]


def parts_of(body: Object) -> Iterator[tuple[str, str]]:
    """Yield what the prefix check compares: `system`, `tools`, each message; name and text."""
    yield "system", canonical(system_of(body))
    yield "tools", canonical(body.get("tools"))
    for index, message in enumerate(messages_of(body)):
        yield f"messages.{index}", canonical(message)


def prefix_digests(body: Object) -> Iterator[str]:
    """Yield the digest of what precedes each message, then the one of the whole request."""
    digest = hashlib.sha256()
    for index, (_, text) in enumerate(parts_of(body)):
        if index > 1:  # system and tools precede every message
            yield digest.hexdigest()
        digest.update(text.encode() + b"\n")
    yield digest.hexdigest()
