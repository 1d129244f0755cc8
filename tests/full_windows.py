"""Runs in tests whose context window is nearly full, and what Claude's side was asked for."""

import json
from collections.abc import Sequence
from typing import Any

from agent_runs import Bench, Run

from onward import tool
from onward.testing.messages_api import Script, Step

FULL = {"input_tokens": 900_000}
"""Usage of a reply after which a window of a million tokens is nearly full."""


class Noted:
    """A tool with an effect that is counted, and says more than a small window holds."""

    def __init__(self, size: int = 100) -> None:
        self.notes = list[str]()

        @tool(effect="keyed")
        async def note(text: str) -> str:
            """Write a note."""
            self.notes.append(text)
            return f"{text} " * (size // len(text))

        self.tool = note


async def started(bench: Bench, steps: Sequence[Step], summary: Step, **limits: Any) -> Run:
    """Start a run in which `summary` says how a request for one is answered."""
    run = await bench.start(*steps, **limits)
    bench.api.scripts[run.name] = Script(steps=steps, summary=summary)
    return run


def note(text: str, **fields: Any) -> Step:
    """A step in which Claude thinks, and asks for a note."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    call = {"type": "tool_use", "name": "note", "input": {"text": text}}
    return Step(content=[thinking, call], **fields)


def kinds(run: Run) -> list[str]:
    """What each request was: `ask`, or `sum up`, or `after` where it began with a summary."""
    bodies = [json.loads(entry.body) for entry in run.requests]
    return ["sum up" if "compaction" in b else "after" if begins(b) else "ask" for b in bodies]


def begins(body: dict[str, Any]) -> bool:
    """The request begins with a summary."""
    return bool(body["messages"][0]["role"] == "assistant")
