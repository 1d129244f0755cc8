"""What a terminal showed, moment by moment, drawn as an SVG that moves.

No kept library does this: pyte reads what a program wrote, as a terminal would, and the rest is a
strip of frames that CSS pulls through a window. It needs no script, so it plays inside an `<img>`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape

import pyte
from pyte.screens import Char

_CHARACTER, _LINE, _MARGIN = 8.4, 19, 18
"""Sizes in pixels, of a font of 14."""
_COLOURS = {
    "default": "#d0d7de",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",  # so pyte calls yellow
    "cyan": "#76e3ea",
    "magenta": "#d2a8ff",
}
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{outer_width:g}" height="{outer_height}">
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
white-space:pre}}
.bold{{font-weight:bold}}
.film{{transform:translateY({last}px);animation:film {seconds:.2f}s step-end infinite}}
@keyframes film{{{moves}}}
@media (prefers-reduced-motion:reduce){{.film{{animation:none}}}}
</style>
<defs>
{rows}
</defs>
<rect width="100%" height="100%" rx="9" fill="#0d1117"/>
<svg x="{margin}" y="{margin}" width="{width:g}" height="{height}"><g class="film">
{frames}
</g></svg>
</svg>
"""
"""Where nothing may move, the last frame is shown."""
_TEXT = (
    '<text x="{x:g}" y="14" fill="{colour}"{bold} textLength="{length:g}"'
    ' lengthAdjust="spacingAndGlyphs">{text}</text>'
)
"""A length of its own keeps columns in line, whatever font a reader's machine has."""

Row = tuple[tuple[int, str, Char], ...]
"""Pieces of a line that look alike: column, text, and a character that has their style."""


@dataclass(frozen=True)
class Frame:
    """What was on the screen from one moment on."""

    at_s: float
    rows: tuple[Row, ...]


class Film:
    """Takes what a program writes, and remembers what there was to see."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.frames: list[Frame] = []
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._stream.feed(data)

    def shoot(self, at_s: float) -> None:
        """Keep what is on the screen now, if it is not what was there before."""
        rows = tuple(self._row(number) for number in range(self.rows))
        if not self.frames or self.frames[-1].rows != rows:
            self.frames.append(Frame(at_s, rows))

    def _row(self, number: int) -> Row:
        line = self._screen.buffer[number]
        cells = [(column, line[column]) for column in range(self.columns)]
        pieces: list[tuple[int, str, Char]] = []
        for _, alike in groupby(cells, lambda cell: cell[1]._replace(data="")):
            (column, style), *_ = group = list(alike)
            text = "".join(char.data for _, char in group)
            if text.strip():
                blanks = len(text) - len(text.lstrip())
                pieces.append((column + blanks, text.strip(), style._replace(data="")))
        return tuple(pieces)


def svg(film: Film, seconds: Sequence[float]) -> str:
    """Draw a film whose frames are shown so long each."""
    height, width = film.rows * _LINE, film.columns * _CHARACTER
    rows = {row: number for number, row in enumerate(_different(film.frames))}
    strip = (_strip(frame, place * height, rows) for place, frame in enumerate(film.frames))
    return _SVG.format(
        width=width,
        height=height,
        margin=_MARGIN,
        outer_width=width + 2 * _MARGIN,
        outer_height=height + 2 * _MARGIN,
        last=-(len(film.frames) - 1) * height,
        seconds=sum(seconds),
        moves=_moves(seconds, height),
        rows="\n".join(_drawn(row, number) for row, number in rows.items()),
        frames="\n".join(strip),
    )


def _different(frames: Sequence[Frame]) -> list[Row]:
    """Rows that are not empty, each once: most stay as they are from frame to frame."""
    return list(dict.fromkeys(row for frame in frames for row in frame.rows if row))


def _moves(seconds: Sequence[float], height: int) -> str:
    passed, steps = 0.0, list[str]()
    for place, shown_s in enumerate(seconds):
        steps.append(f"{passed / sum(seconds):.3%}{{transform:translateY({-place * height}px)}}")
        passed += shown_s
    return "".join(steps)


def _drawn(row: Row, number: int) -> str:
    return f'<g id="r{number}">{"".join(_pieces(row))}</g>'


def _pieces(row: Row) -> Iterator[str]:
    for column, text, style in row:
        yield _TEXT.format(
            x=column * _CHARACTER,
            colour=_COLOURS.get(style.fg, f"#{style.fg}"),
            bold=' class="bold"' if style.bold else "",
            length=len(text) * _CHARACTER,
            text=escape(text),
        )


def _strip(frame: Frame, top: int, rows: dict[Row, int]) -> str:
    uses = (
        f'<use href="#r{rows[row]}" y="{line * _LINE}"/>'
        for line, row in enumerate(frame.rows)
        if row
    )
    return f'<g transform="translate(0 {top})">{"".join(uses)}</g>'
