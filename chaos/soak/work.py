"""What the runs of the soak do: a few kinds, one after the other, the same in every soak.

Every kind leaves something of its own behind while it goes on: a wait for a person, a file in the
payload folder, a chain of workflow runs, a key that all runs share, a run that nobody ended.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chaos.conversations import TOOLS, Conversation, PlannedCall
from onward.messages import EffectClass
from onward.testing.messages_api import Asked, Step

Kind = Literal[
    "short", "approved", "denied", "cancelled", "terminated", "cut off", "long", "once", "continued"
]
"""`cut off`: terminated while a call is under way. `long`: a result of many pages. `once`: a key
that every run recognises. `continued`: so many steps that it continues as new."""

ROUND: Sequence[Kind] = (
    *("short", "approved", "short", "once", "long"),
    *("short", "cancelled", "short", "denied", "short"),
    *("terminated", "short", "approved", "continued", "short"),
    *("once", "cut off", "short", "long", "cancelled"),
)
"""What the runs do, in turn."""

_EFFECTS: dict[str, EffectClass] = {
    **TOOLS,
    "approved_refund": "keyed",
    "refund_once": "keyed",
    "statement": "read",
}
_PLANS: dict[Kind, Sequence[Sequence[str]]] = {
    "approved": [["look_up"], ["approved_refund"]],
    "denied": [["look_up"], ["approved_refund"]],
    "cancelled": [["approved_refund"]],
    "terminated": [["approved_refund"]],
    "cut off": [["refund_once"]],
    "long": [["statement", "look_up"]],
    "once": [["refund_once"]],
    "continued": [["look_up"], ["refund"]] * 6,
}
_SHORT: Sequence[Sequence[Sequence[str]]] = (
    [["refund", "look_up"], ["book_refund"]],
    [["look_up", "sealed_refund"]],
    [["pay_out", "refund"]],
)
_THINKS_S = 0.05
_SPEAKS_S = (0.0, 0.1)
"""Between two pieces of a reply; slowly enough that it is published while it comes."""
_SLOW = "delay_s=20"
"""So that there is time to terminate the run while the call is under way."""


@dataclass(frozen=True)
class Call(PlannedCall):
    """A call of one of the soak's tools."""

    @property
    def effect(self) -> EffectClass:
        """Effect class of its tool."""
        return _EFFECTS[self.tool]


@dataclass(frozen=True)
class Work(Conversation):
    """What one run does, and what is done to it."""

    kind: Kind

    def reply(self, asked: Asked) -> Step:
        """Say what Claude replies: in the end what it was told, but not all of a statement."""
        step = super().reply(asked)
        if asked.step < len(self.steps):
            return step.model_copy(update={"chunk_delay_s": _SPEAKS_S[self.kind == "long"]})
        told = json.loads(step.content[0]["text"])
        for call in self.calls:
            if call.tool == "statement" and call.order in told:
                told[call.order]["text"] = "{}"
        return Step(content=[{"type": "text", "text": json.dumps(told)}], delay_s=self.thinks_s)


def work(number: int) -> Work:
    """Say what run `number`, from 0, does."""
    kind = ROUND[number % len(ROUND)]
    plan = _SHORT[number % len(_SHORT)] if kind == "short" else _PLANS[kind]
    name = f"soak-{number}"
    steps = tuple(
        tuple(
            Call(f"{step}.{at}", tool, f"{name}-{step}.{at}", _SLOW if kind == "cut off" else "")
            for at, tool in enumerate(tools, 1)
        )
        for step, tools in enumerate(plan, 1)
    )
    return Work(name, steps, _THINKS_S, kind)
