"""A conversation for people, on a terminal or in a file."""

from collections.abc import Iterable

from onward.console import Output
from onward.retelling.pieces import Kind, Piece

SHOWN_CHARS = 2000
_SHOWN_LINES = 30
_STYLES: dict[Kind, str] = {
    "step": "dim",
    "onward": "bold",
    "person": "bold cyan",
    "claude": "bold magenta",
    "thinking": "dim",
    "call": "bold yellow",
    "result": "green",
    "error": "bold red",
}
_CUT: frozenset[Kind] = frozenset({"thinking", "call", "result", "error"})
"""What is cut where it is long: not what people and Claude said to each other."""


def show(pieces: Iterable[Piece], out: Output, *, whole: bool) -> None:
    """Print the pieces one by one; unless `whole`, cut long inputs and results with a note."""
    for piece in pieces:
        out.styled(f"── {piece.who} ──" if piece.kind == "step" else piece.who, _STYLES[piece.kind])
        if piece.kind == "step":
            continue
        text = piece.text if whole or piece.kind not in _CUT else cut(piece.text)
        # Indented, so that no line of a tool's can pass for one of ours.
        out.result("\n".join(f"  {line}" for line in text.splitlines()))


def cut(text: str) -> str:
    """Keep the beginning of a long text, and say how much is left out."""
    kept = "\n".join(text[:SHOWN_CHARS].splitlines()[:_SHOWN_LINES])
    left = len(text) - len(kept)
    return text if left <= 1 else f"{kept}\n… ({left:,} characters left out; --whole shows them)"
