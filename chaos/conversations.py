"""What the runs do: each run's conversation comes from the seed and its number alone.

Claude's last words are a report of what it was told about every call. So a workflow's result holds
all that the audit needs to know of a run, and the audit asks nobody else.
"""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onward.messages import EffectClass
from onward.testing.messages_api import Asked, Step

TOOLS: dict[str, EffectClass] = {
    "look_up": "read",
    "refund": "keyed",
    "book_refund": "transactional",
    "pay_out": "at_most_once",
    "sealed_refund": "sealed",
    "timed_refund": "timed",
}
_STEPS, _CALLS = (2, 4), (2, 4)
_PACES = ("", "delay_s=0.1", "delay_after_s=0.1", "delay_s=0.3", "delay_after_s=0.3")
_THINKS_S = (0.02, 0.4)


@dataclass(frozen=True)
class PlannedCall:
    """One call that Claude will ask for."""

    id: str
    """`2.1`: step 2, call 1."""
    tool: str
    order: str
    """Of this call alone, so the books show what it did."""
    pace: str

    @property
    def effect(self) -> EffectClass:
        """Effect class of its tool."""
        return TOOLS[self.tool]

    @property
    def block(self) -> dict[str, Any]:
        """As Claude asks for it."""
        given = {"order": self.order, "pace": self.pace}
        return {"type": "tool_use", "name": self.tool, "input": given}


@dataclass(frozen=True)
class Conversation:
    """What one run does."""

    name: str
    """Of the workflow and of its script."""
    steps: tuple[tuple[PlannedCall, ...], ...]
    thinks_s: float
    """How long Claude takes over each reply."""

    @property
    def calls(self) -> Iterator[PlannedCall]:
        """All calls, in order."""
        return (call for step in self.steps for call in step)

    def reply(self, asked: Asked) -> Step:
        """Say what Claude replies; the same to the same request."""
        if asked.step < len(self.steps):
            blocks = [call.block for call in self.steps[asked.step]]
        else:
            blocks = [{"type": "text", "text": json.dumps(_told(asked.body))}]
        return Step(content=blocks, delay_s=self.thinks_s)


def conversation(seed: int, number: int) -> Conversation:
    """Make up the conversation of run `number`."""
    made = random.Random(f"conversation {seed} {number}")  # noqa: S311  (to be repeated, not secret)
    name = f"chaos-{seed}-{number}"
    steps = [
        tuple(_call(made, name, f"{step}.{index + 1}") for index in range(made.randint(*_CALLS)))
        for step in range(1, made.randint(*_STEPS) + 1)
    ]
    return Conversation(name, tuple(steps), round(made.uniform(*_THINKS_S), 3))


def _call(made: random.Random, run: str, call: str) -> PlannedCall:
    return PlannedCall(call, made.choice(list(TOOLS)), f"{run}-{call}", made.choice(_PACES))


def _told(body: Mapping[str, Any]) -> dict[str, Any]:
    """Gather, by order, the results that a request to Claude holds."""
    blocks = [
        block
        for message in body["messages"]
        if not isinstance(message["content"], str)
        for block in message["content"]
    ]
    orders = {b["id"]: b["input"]["order"] for b in blocks if b["type"] == "tool_use"}
    return {
        orders[block["tool_use_id"]]: {
            "is_error": block.get("is_error", False),
            "text": _text(block["content"]),
        }
        for block in blocks
        if block["type"] == "tool_result"
    }


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
