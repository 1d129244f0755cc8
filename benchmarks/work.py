"""The work that every contender does: in each step one call to Claude and one call of a tool.

What Claude says is decided by `benchmarks/lean_api.py` from the prompt's marker, and what a tool
returns is made up here, so that every contender has the same conversation.
"""

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self, get_args

Tool = Literal["look", "book"]
"""`look` reads; `book` has an effect. Only Onward treats them differently."""
TOOLS: tuple[Tool, ...] = get_args(Tool)
_TOOL_NAMED: dict[str, Tool] = {tool: tool for tool in TOOLS}

MODEL = "claude-sonnet-5-5"
SYSTEM = "You go through the pages of a book, one page after the other."
MAX_TOKENS = 4096

_MARKER = re.compile(r"\[work:(?P<name>[\w-]+):(?P<steps>\d+):(?P<tool>\w+):(?P<bytes>\d+)\]")
_WORDS, _PAGES_CHARS = 2_000, 1 << 20


@dataclass(frozen=True)
class Work:
    """One run's work."""

    name: str
    """Of this run alone."""
    steps: int
    """Replies of Claude; all but the last ask for the tool."""
    tool: Tool = "look"
    result_bytes: int = 1024
    """Of each result of the tool."""

    @property
    def prompt(self) -> str:
        """What a person asks; the marker tells the API's double what to answer."""
        marker = f"[work:{self.name}:{self.steps}:{self.tool}:{self.result_bytes}]"
        return f"Go through the book, page by page. {marker}"

    @classmethod
    def found_in(cls, text: str) -> Self:
        """Read the marker. Raises ValueError where there is none."""
        found = _MARKER.search(text)
        tool = _TOOL_NAMED.get(found["tool"]) if found else None
        if found is None or tool is None:
            raise ValueError(
                f"found no work in {text[:200]!r}; expected [work:NAME:STEPS:TOOL:BYTES]"
            )
        return cls(found["name"], int(found["steps"]), tool, int(found["bytes"]))


def numbers(text: str) -> list[int]:
    """Read `10,50` as the command line has it. Raises ValueError, which argparse puts in words."""
    found = [int(each) for each in text.split(",")]
    if min(found) < 1:
        raise ValueError(f"found {min(found)}, expected 1 at least")
    return found


def number(text: str) -> int:
    """Read one number, 1 at least. Raises as `numbers`."""
    (found,) = numbers(text)
    return found


def page(n: int, size: int) -> str:
    """Make a tool's result: `size` bytes of words, other ones for every `n`."""
    head, words = f"Page {n}. ", _words()
    at = n * size % (len(words) - size)
    return (head + words[at : at + size])[:size]


def tool_definitions() -> list[dict[str, Any]]:
    """Define the tools as the Messages API wants them."""
    number = {"type": "integer"}
    schema = {
        "type": "object",
        "properties": {"n": number, "size": number},
        "required": ["n", "size"],
    }
    return [
        {"name": tool, "description": f"Page n, to {tool}.", "input_schema": schema}
        for tool in TOOLS
    ]


@cache
def _words() -> str:
    # Drawn from a vocabulary, because text is what tools return and it compresses like text: noise
    # would make the carried segments too large, and one letter would make them vanish.
    draw = random.Random(4)  # noqa: S311  (the same for every contender, and no secret)
    letters = "etaoinshrdlucmfw"
    known = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(_WORDS)]
    return " ".join(draw.choices(known, k=_PAGES_CHARS // 6))
