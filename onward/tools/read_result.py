"""`read_result`: how Claude reads on in a result too long to show; agents with tools have it.

Only its definition and its words are here. The worker answers it from the ledger, which a tool's
own code never sees.
"""

from typing import Annotated

from pydantic import Field

from onward.tools.decorator import tool
from onward.tools.results import cut

PAGE_BYTES = 60 * 1024
"""Of the text that one call shows, UTF-8: with the line above it, it is never cut itself."""
_INSIDE_A_CHARACTER = range(0b1000_0000, 0b1100_0000)
"""Bytes of UTF-8 that are not the first of their character."""

CallId = Annotated[
    str,
    Field(
        pattern=r"^[0-9]+(\.r[0-9]+)?\.[0-9]+$",
        description='As the note in the result names it, like "12.1".',
    ),
]
Offset = Annotated[int, Field(ge=0, description="Where to begin, in bytes of UTF-8.")]


@tool(effect="read")
def read_result(call: CallId, offset: Offset = 0) -> str:
    """Read the result of an earlier call, of which a part was left out because it is long.

    Shows about 60 KiB, and says where to read on. The note in a result says which call and which
    offset to give.
    """
    raise NotImplementedError(f"only a worker has the result of {call!r} (from byte {offset} on)")


def page(whole: str, call: str, offset: int) -> str:
    """Return the text from byte `offset` on, under a line that says what it is.

    It begins with a whole character, with the one that `offset` falls into.
    """
    data = whole.encode()
    start = min(offset, len(data))
    while start < len(data) and data[start] in _INSIDE_A_CHARACTER:
        start -= 1
    text = cut(data[start : start + PAGE_BYTES])
    end = start + len(text.encode())
    more = f'read_result(call="{call}", offset={end}) reads on' if end < len(data) else "its end"
    return f"[bytes {start} to {end} of {len(data)} of the result of {call}; {more}]\n{text}"
