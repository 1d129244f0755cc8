"""A conversation as one HTML file that needs nothing else, and runs nothing.

What Claude and tools wrote is hostile input: it stands in the file as text alone. The file has no
script, and its policy forbids one, and every other thing that would be fetched or sent.
"""

from collections.abc import Iterable, Iterator
from html import escape

from onward.retelling.pieces import Kind, Piece
from onward.retelling.text import SHOWN_CHARS
from onward.terminal import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_FOLDED: frozenset[Kind] = frozenset({"thinking", "call", "result", "error"})
"""What is folded where it is long."""

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --ink: #1d1d1f; --paper: #fff; --soft: #6b6b70; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --paper: #17171a; --soft: #9a9aa0; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.25rem; margin-bottom: .25rem; overflow-wrap: anywhere; }
.about { color: var(--soft); margin-top: 0; overflow-wrap: anywhere; }
h2 { font-size: .8rem; font-weight: 600; color: var(--soft); border-top: 1px solid var(--line);
  margin: 2rem 0 .75rem; padding-top: .5rem; }
section { margin: .75rem 0; padding: .5rem .75rem; border-left: 3px solid var(--line);
  border-radius: 3px; background: #8881; }
h3 { font-size: .8rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
pre { margin: 0; font: inherit; white-space: pre-wrap; overflow-wrap: anywhere;
  unicode-bidi: plaintext; }
.call pre, .result pre, .error pre { font: .82rem/1.45 ui-monospace, monospace; }
.person { border-color: #0a84c6; } .person h3 { color: #0a84c6; }
.claude { border-color: #9b51c4; } .claude h3 { color: #9b51c4; }
.call { border-color: #b7791f; } .call h3 { color: #b7791f; }
.result { border-color: #2f855a; margin-left: 1.5rem; } .result h3 { color: #2f855a; }
.error { border-color: #c53030; margin-left: 1.5rem; } .error h3 { color: #c53030; }
.thinking { color: var(--soft); font-style: italic; }
summary { cursor: pointer; font-size: .8rem; color: var(--soft); }
"""


def page(title: str, about: str, pieces: Iterable[Piece]) -> Iterator[str]:
    """Make the file, part by part, in ASCII: no locale or lone surrogate can spoil it."""
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_safe(title)}</title>\n<style>{_STYLE}</style></head><body>\n"
        f'<h1>{_safe(title)}</h1>\n<p class="about">{_safe(about)}</p>\n'
    )
    yield from map(_section, pieces)
    yield "</body></html>\n"


def _section(piece: Piece) -> str:
    if piece.kind == "step":
        return f"<h2>{_safe(piece.who)}</h2>\n"
    text = f"<pre>{_safe(piece.text)}</pre>"
    if piece.kind in _FOLDED and len(piece.text) > SHOWN_CHARS:
        begun = _safe(piece.text[:200].replace("\n", " "))
        label = f"{begun}… ({len(piece.text):,} characters)"
        text = f"<details><summary>{label}</summary>{text}</details>"
    return f'<section class="{piece.kind}"><h3>{_safe(piece.who)}</h3>{text}</section>\n'


def _safe(text: str) -> str:
    return escape(visible(text)).encode("ascii", "xmlcharrefreplace").decode()
